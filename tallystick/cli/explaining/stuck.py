"""`tallystick explain stuck`: why readers of committed records do not go on, and the command that ends it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from tallystick.cli.connecting import asked, connecting, connecting_words
from tallystick.cli.durations import ago, in_words
from tallystick.cli.explaining.status import end
from tallystick.cli.tables import say
from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError
from tallystick.inspection.places import Failed, Place, places
from tallystick.inspection.stuck import Cause, Held, Holder, ending_words, held
from tallystick.journals.asking import NotTold, Said, asking, told
from tallystick.journals.sentences import WHOSE, moment, name_of
from tallystick.written import command_line, counted


@dataclass(frozen=True, slots=True)
class Journal:
    """What a broker's journal knows: who holds each transactional id with an open transaction, and since when it knows
    anything."""

    clients: Mapping[str, Said] = field(default_factory=dict)
    began_ms: int | None = None


NOTHING = Journal()


@click.command()
@click.argument("what", metavar="[TOPIC[-PARTITION]]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array on stdout.")
@asking
@connecting
def stuck(
    what: str | None,
    as_json: bool,
    http_url: str | None,
    http_token_file: str | None,
    bootstrap: str,
    command_config: Any,
) -> None:
    """Why readers of committed records do not go on: the transactions that hold the last stable offset, how long they
    may, and the command that ends them. Without a topic: of all that are not internal. With --http also the clients
    that hold them, which Kafka's protocol does not tell."""

    async def look(client: Client) -> list[Held]:
        return await held(client, await _named(client, what), failed)

    failed: Failed = {}
    found = asked(bootstrap, command_config, look)
    connection = connecting_words(bootstrap, command_config)
    journal = _journal(http_url, http_token_file) if found and http_url else NOTHING
    if as_json:
        click.echo(json.dumps([_as_json(one, connection, now_ms(), journal) for one in found], indent=2))
    else:
        for line in said(found, connection, now_ms(), journal) if found or not failed else ():
            say(line)
        if found and not http_url and any(holder.transaction for one in found for holder in one.holders):
            say(WHOSE, err=True)
    end(stands_still=bool(found), failed=failed)


def _journal(http_url: str, token_file: str | None) -> Journal:
    try:
        answer = told(http_url, "/v1/transactions/open", token_file)
    except NotTold as problem:
        say(f"tallystick: {problem}", err=True)
        return NOTHING
    clients = {one["transactionalId"]: one["client"] for one in answer["transactions"] if one["client"]}
    return Journal(clients, answer["began"])


async def _named(client: Client, what: str | None) -> list[Place]:
    """A topic may be called as a partition of another one is: its name comes first."""
    if what is None:
        return await places(client)
    topic, _, number = what.rpartition("-")
    try:
        return await places(client, [what])
    except KafkaError:
        if not topic or not number.isdecimal():
            raise
    return await places(client, [topic], int(number))


def said(found: list[Held], connection: Sequence[str], now: int, journal: Journal = NOTHING) -> list[str]:
    """In sentences."""
    if not found:
        return ["Nothing is held: readers of committed records can read up to the end."]
    lines = []
    for one in found:
        waiting = one.ends.high_watermark - one.ends.last_stable_offset
        lines.append(
            f"{one.place[0]}-{one.place[1]}: readers of committed records stand at offset "
            f"{one.ends.last_stable_offset}, {waiting} before the end."
        )
        if not one.holders:
            lines.append("  What held them has ended meanwhile.")
            continue
        first, *others = one.holders
        lines += [f"  {sentence}" for sentence in _about(first, one.place, connection, now)]
        if (client := _client_of(first, journal)) is not None:
            lines.append(f"  It is held by {name_of(client)}.")
        elif _is_older(first, journal):
            assert journal.began_ms is not None
            since = (
                f"the journal begins at {moment(journal.began_ms)}, when the broker started, and it was begun before"
            )
            lines.append(f"  Which client holds it is not known: {since}.")
        lines += [f"  Behind it is open: {_name(other)}, from offset {other.first_offset} on." for other in others]
    return lines


def _client_of(holder: Holder, journal: Journal) -> Said | None:
    return None if holder.transaction is None else journal.clients.get(holder.transaction.transactional_id)


def _is_older(holder: Holder, journal: Journal) -> bool:
    """A journal is in memory: it begins when the broker is started."""
    started_ms = None if holder.transaction is None else holder.transaction.started_ms
    return started_ms is not None and journal.began_ms is not None and started_ms < journal.began_ms


def _name(holder: Holder) -> str:
    known = holder.transaction
    of = f"producer id {holder.producer_id}, epoch {holder.producer_epoch}"
    return of if known is None else f"transactional id {known.transactional_id!r} ({of})"


def _about(holder: Holder, place: Place, connection: Sequence[str], now: int) -> list[str]:
    transaction = holder.transaction
    wrote = f"its last record here was written {ago(now - holder.last_write_ms)}"
    if holder.cause is Cause.HANGING:
        return [
            f"They wait for a transaction that nobody will end: {_name(holder)}, open here from offset "
            f"{holder.first_offset} on, is not in the hands of a coordinator; {wrote}.",
            f"To end it: {_command(holder, place, connection)}",
        ]
    if holder.cause is Cause.UNSEEN:
        return [
            f"They wait for {_name(holder)}, open here from offset {holder.first_offset} on; {wrote}. Whose that is, "
            "no coordinator tells you: you may not describe every transactional id.",
            "Ask as somebody who may (DESCRIBE on all of them): do not end by hand what may be in good hands.",
        ]
    assert transaction is not None, "only what hangs is unknown to its coordinator"
    over = counted(len(transaction.places), "partition")
    lines = [
        f"They wait for {_name(holder)}: its transaction is {transaction.state}, over {over}, with its first record "
        f"here at {holder.first_offset}; {wrote}."
    ]
    if holder.cause is Cause.DECIDED:
        return [
            *lines,
            "It is decided: its coordinator writes the markers. If that lasts, the broker's log says what keeps it.",
        ]
    assert transaction.started_ms is not None, "it is open"
    left = transaction.left_ms(now) or 0
    ends = f"is aborted in {in_words(left)}" if left > 0 else "is being aborted"
    lines.append(
        f"It was begun {ago(now - transaction.started_ms)} and {ends} (its transaction.timeout.ms is "
        f"{transaction.timeout_ms}), if its producer does not end it before."
    )
    return [*lines, f"To abort it now, and fence its producer: {_command(holder, place, connection)}"]


def _command(holder: Holder, place: Place, connection: Sequence[str]) -> str | None:
    words = ending_words(holder, place)
    return None if words is None else command_line([*words, *connection])


def _as_json(one: Held, connection: Sequence[str], now: int, journal: Journal) -> dict[str, Any]:
    return {
        "topic": one.place[0],
        "partition": one.place[1],
        "lastStableOffset": one.ends.last_stable_offset,
        "highWatermark": one.ends.high_watermark,
        "heldBy": [
            {
                "cause": holder.cause.value,
                "firstOffset": holder.first_offset,
                "producerId": holder.producer_id,
                "producerEpoch": holder.producer_epoch,
                "lastWriteMs": holder.last_write_ms,
                "transactionalId": known and known.transactional_id,
                "state": known and known.state,
                "startedMs": known and known.started_ms,
                "timeoutMs": known and known.timeout_ms,
                "leftMs": known and known.left_ms(now),
                "partitions": known and [list(place) for place in known.places],
                "client": _client_of(holder, journal),
                "journalBegan": journal.began_ms,
                "command": _command(holder, one.place, connection),
            }
            for holder in one.holders
            for known in [holder.transaction]
        ],
    }
