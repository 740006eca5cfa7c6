"""`tallystick produce`: lines of standard input into a topic, in the words of `kafka-console-producer`.

Status 0 when all of it is acknowledged (and committed), 1 with a sentence on stderr when it is not, 2 for wrong
options, 130 when it was interrupted (143 by SIGTERM); of a transaction then nothing is seen.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import click

from protocol.records.compression import NAMES
from protocol.records.record import Headers
from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.records.interrupted import cancel_when_terminated, ending_when_interrupted
from tallystick.cli.records.standard_input import NotRead, lines_of_input
from tallystick.cli.tables import say
from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError, TransactionGone
from tallystick.client.lease import Lease, end_transaction, take_lease
from tallystick.client.sender import Sender
from tallystick.durations import in_milliseconds
from tallystick.records.identity import take_identity
from tallystick.records.input_lines import BadLine, Lines
from tallystick.records.unnumbered import UnnumberedSender
from tallystick.records.writer import BatchSender, RecordWriter, batch_bytes_of

PATIENCE_S = 60.0
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for, but for the records."""

    topic: str
    lines: Lines
    partition: int | None
    transactional_id: str | None
    timeout_ms: int
    acks: int
    compression: int


@click.command()
@click.argument("topic")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Lines are JSON objects, as consume --json writes them; counts go to stdout as JSON.",
)
@click.option("--key-separator", help="What stands between key and value; without it there are no keys.")
@click.option("--headers", "with_headers", is_flag=True, help="Lines begin with name:value,name:value and a tab.")
@click.option("--header", "fixed", multiple=True, help="NAME=VALUE, a header of each record; may be repeated.")
@click.option("--null-marker", help="A key or value that reads so is null.")
@click.option("--partition", type=click.IntRange(min=0), help="All into this one, whatever the keys.")
@click.option("--transactional-id", help="All of it in one transaction, aborted where anything goes wrong.")
@click.option("--transaction-timeout", default="60s", help="How long the transaction may take: 60s, 15m.")
@click.option("--acks", type=click.Choice(list(_ACKS)), default="all", help="all (idempotent), 1 or 0.")
@click.option("--compression", type=click.Choice(NAMES), default="none", help="Of the batches.")
@connecting
def produce(
    *,
    topic: str,
    as_json: bool,
    key_separator: str | None,
    with_headers: bool,
    fixed: tuple[str, ...],
    null_marker: str | None,
    partition: int | None,
    transactional_id: str | None,
    transaction_timeout: str,
    acks: str,
    compression: str,
    bootstrap: str,
    command_config: Any,
) -> None:
    """Write lines of standard input into a topic, on any Kafka 3.0 or newer.

    Each is written once: a batch that was not answered is sent again, and known by its sequence (--acks all).
    """
    if transactional_id is not None and acks not in ("all", "-1"):
        raise click.UsageError("a transaction needs --acks all")
    if as_json and (key_separator is not None or with_headers or null_marker is not None):
        raise click.UsageError("--json lines have their keys and headers in them")
    if key_separator == "" or transactional_id == "":
        raise click.UsageError("--key-separator and --transactional-id are not empty")
    encoded = [None if one is None else one.encode("utf-8", "surrogateescape") for one in (key_separator, null_marker)]
    wanted = Wanted(
        topic=topic,
        lines=Lines(as_json, encoded[0], with_headers, encoded[1], _headers(fixed)),
        partition=partition,
        transactional_id=transactional_id,
        timeout_ms=_timeout_ms(transaction_timeout),
        acks=_ACKS[acks],
        compression=NAMES.index(compression),
    )
    with ending_when_interrupted():
        try:
            counts = asked(bootstrap, command_config, lambda client: _produced(client, wanted))
        except (BadLine, NotRead) as problem:
            undone = "" if transactional_id is None else "; the transaction is aborted"
            say_and_end(f"{problem}{undone}")
    _report(wanted, counts, as_json=as_json)


def _headers(written: tuple[str, ...]) -> Headers:
    pairs = [one.partition("=") for one in written]
    if bad := [name + value for name, found, value in pairs if not found]:
        raise click.BadParameter(f"{bad[0]!r} is not NAME=VALUE", param_hint="--header")
    try:
        "".join(name for name, _, _ in pairs).encode()
    except UnicodeEncodeError:
        raise click.BadParameter("names of headers are UTF-8", param_hint="--header") from None
    return tuple((name, value.encode("utf-8", "surrogateescape")) for name, _, value in pairs)


def _timeout_ms(written: str) -> int:
    try:
        return in_milliseconds(written)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--transaction-timeout") from None


def _report(wanted: Wanted, counts: dict[int, int], *, as_json: bool) -> None:
    records = sum(counts.values())
    committed = wanted.transactional_id is not None
    if as_json:
        partitions = [{"partition": number, "records": count} for number, count in sorted(counts.items())]
        said = {"topic": wanted.topic, "records": records, "committed": committed, "partitions": partitions}
        click.echo(json.dumps(said))
        return
    into = f"{records} record{'' if records == 1 else 's'} into {wanted.topic}"
    say(f"Committed {into}." if committed else f"Produced {into}.", err=True)


async def _produced(client: Client, wanted: Wanted) -> dict[int, int]:
    """Records by partition."""
    partitions = len((await client.topic(wanted.topic)).partitions)
    lease = None
    if wanted.transactional_id is not None:
        cancel_when_terminated()
        lease = await take_lease(client, wanted.transactional_id, timeout_ms=wanted.timeout_ms, patience_s=PATIENCE_S)
    sender = await _sender(client, wanted, lease)
    writer = RecordWriter(
        sender,
        wanted.topic,
        partitions,
        transactional=lease is not None,
        compression=wanted.compression,
        only_partition=wanted.partition,
        batch_bytes=await batch_bytes_of(client, wanted.topic),
    )
    try:
        await _write_input(writer, wanted.lines)
    except BaseException:
        await sender.close()
        if lease is not None and writer.is_begun:
            await _abort(client, lease)
        raise
    if lease is not None and writer.is_begun:
        await end_transaction(client, lease, commit=True, patience_s=PATIENCE_S)
    return {number: totals.records for (_, number), totals in sender.totals.items()}


async def _sender(client: Client, wanted: Wanted, lease: Lease | None) -> BatchSender:
    if wanted.acks >= 0:
        return UnnumberedSender(client, acks=wanted.acks)
    return Sender(client, lease or await take_identity(client, patience_s=PATIENCE_S), patience_s=PATIENCE_S)


async def _write_input(writer: RecordWriter, lines: Lines) -> None:
    number = 0
    async for piece in lines_of_input():
        now = now_ms()
        for line in piece:
            number += 1
            try:
                await writer.write(lines.parsed(line, now))
            except (BadLine, ValueError) as problem:
                raise BadLine(f"line {number}: {problem}") from None
        await writer.send_gathered()
    await writer.flush()


async def _abort(client: Client, lease: Lease) -> None:
    """Whoever waits for it need not wait for the timeout; where it fails, they do."""
    try:
        await asyncio.shield(end_transaction(client, lease, commit=False, patience_s=PATIENCE_S))
    except TransactionGone:  # nothing of it had come to a broker
        return
    except KafkaError as error:
        say(f"tallystick: the transaction could not be aborted, it runs into its timeout: {error}", err=True)
