"""`tallystick transactions`: transactions of a cluster, in the words of `kafka-transactions`.

Status 0 when it is shown or done, 1 with a sentence on stderr when it is not.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.durations import in_words
from tallystick.cli.explaining.status import end
from tallystick.cli.explaining.timeline import timeline
from tallystick.cli.tables import say, show
from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.inspection import transactions as of_cluster
from tallystick.inspection.places import Failed, Place, places
from tallystick.inspection.stuck import Cause, Held, held
from tallystick.written import counted

Command = Callable[..., None]
as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
transactional_id_option = click.option("--transactional-id", required=True, help="Whose transaction.")


@click.group()
def transactions() -> None:
    """Look after transactions, on any Kafka 3.0 or newer (timeline: a Tallystick with an HTTP side)."""


transactions.add_command(timeline)


@transactions.command("list")
@click.option("--duration-filter", "duration_ms", default=-1, help="Only what is open for longer, in milliseconds.")
@click.option("--transactional-id-pattern", "pattern", help="Only ids that match this regular expression.")
@as_json_option
@connecting
def list_(duration_ms: int, pattern: str | None, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Every transactional id, with its coordinator, producer id and state."""
    found = asked(
        bootstrap,
        command_config,
        lambda client: of_cluster.listed(client, duration_ms=duration_ms, pattern=pattern),
    )
    columns = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
    rows = [(one.transactional_id, one.coordinator, one.producer_id, one.state) for one in found]
    show(columns, rows, as_json=as_json)


@transactions.command()
@transactional_id_option
@as_json_option
@connecting
def describe(transactional_id: str, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """State, age, time left and partitions of one transactional id."""
    found = asked(bootstrap, command_config, lambda client: of_cluster.described(client, transactional_id))
    if found is None:
        say_and_end(f"the transactional id {transactional_id!r} is not known to its coordinator")
    now = now_ms()
    left_ms = found.left_ms(now)
    partitions = [f"{topic}-{number}" for topic, number in found.places]
    if as_json:
        said = {
            "transactionalId": transactional_id,
            "producerId": found.producer_id,
            "producerEpoch": found.producer_epoch,
            "state": found.state,
            "timeoutMs": found.timeout_ms,
            "startedMs": found.started_ms,
            "leftMs": left_ms,
            "partitions": [list(place) for place in found.places],
        }
        click.echo(json.dumps(said, indent=2))
        return
    open_for = "-" if found.started_ms is None else in_words(now - found.started_ms)
    columns = ("ProducerId", "ProducerEpoch", "TransactionState", "Timeout", "OpenFor", "Left", "TopicPartitions")
    left = "-" if left_ms is None else in_words(left_ms)
    row = (found.producer_id, found.producer_epoch, found.state, in_words(found.timeout_ms), open_for, left)
    show(columns, [(*row, ", ".join(partitions) or "-")])


@transactions.command("describe-producers")
@click.option("--topic", required=True)
@click.option("--partition", required=True, type=int)
@as_json_option
@connecting
def describe_producers(topic: str, partition: int, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Who wrote to a partition, and which transactions are open in it."""

    async def look(client: Client) -> Sequence[Any]:
        (found,) = (await of_cluster.producers_of(client, await places(client, [topic], partition))).values()
        return sorted(found, key=lambda one: one.producer_id)

    found = asked(bootstrap, command_config, look)
    columns = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    rows = [
        (
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset if one.current_txn_start_offset >= 0 else None,
        )
        for one in found
    ]
    show(columns, rows, as_json=as_json)


@transactions.command("find-hanging")
@click.option("--topic", help="Only this topic.")
@click.option("--partition", type=int, help="Only this partition of the topic.")
@as_json_option
@connecting
def find_hanging(topic: str | None, partition: int | None, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Transactions that are open in a partition and in the hands of no coordinator, whatever their age."""
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")

    async def look(client: Client) -> list[Held]:
        return await held(client, await places(client, None if topic is None else [topic], partition), failed)

    failed: Failed = {}
    found = asked(bootstrap, command_config, look)
    columns = ("Topic", "Partition", "ProducerId", "ProducerEpoch", "StartOffset", "LastTimestamp")
    unseen = sum(holder.cause is Cause.UNSEEN for one in found for holder in one.holders)
    if unseen:
        say(f"{unseen} may hang or not: you may not describe every transactional id, so nobody tells.", err=True)
    rows = [
        (*one.place, holder.producer_id, holder.producer_epoch, holder.first_offset, holder.last_write_ms)
        for one in found
        for holder in one.holders
        if holder.cause is Cause.HANGING
    ]
    show(columns, rows, as_json=as_json)
    end(stands_still=False, failed=failed)


@transactions.command()
@click.option("--topic", required=True)
@click.option("--partition", required=True, type=int)
@click.option("--start-offset", required=True, type=int, help="Where the transaction begins in this partition.")
@as_json_option
@connecting
def abort(*, topic: str, partition: int, start_offset: int, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Abort a hanging transaction in one partition. What a coordinator holds open is ended by `force-terminate`."""
    place: Place = (topic, partition)
    ended = asked(bootstrap, command_config, lambda client: of_cluster.abort_in_partition(client, place, start_offset))
    if as_json:
        whose = {"producerId": ended.producer_id, "producerEpoch": ended.producer_epoch, "startOffset": start_offset}
        click.echo(json.dumps({"topic": topic, "partition": partition, **whose, "aborted": True}))
        return
    click.echo(
        f"Aborted in {topic}-{partition}: the transaction of producer id {ended.producer_id}, epoch "
        f"{ended.producer_epoch}, from offset {start_offset} on."
    )


@transactions.command("force-terminate")
@transactional_id_option
@as_json_option
@connecting
def force_terminate(*, transactional_id: str, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """End the open transaction of a transactional id, and fence its producer."""
    ended = asked(bootstrap, command_config, lambda client: of_cluster.force_terminate(client, transactional_id))
    if as_json:
        state = None if ended is None else ended.state
        places = [] if ended is None else [list(place) for place in ended.places]
        said = {"transactionalId": transactional_id, "stateBefore": state, "partitions": places}
        click.echo(json.dumps({**said, "ended": ended is not None}))
    elif ended is None:
        say(f"{transactional_id}: nothing is open, nothing was done.")
    else:
        outcome = "aborted" if ended.state == of_cluster.ONGOING else "settled as it was decided"
        partitions = counted(len(ended.places), "partition")
        say(f"{transactional_id}: {outcome}, in {partitions}. Whoever held it is fenced.")
