"""`tallystick spark`: what a cluster knows of an exactly-once sink, and the end of a transaction that was left open.

Speaks plain Kafka and needs no Spark. Status 0 when it is shown or done, 1 with a sentence on stderr when it is not.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Any, TypeVar

import click

from protocol.properties import BadProperties, read_properties
from spark_connector.errors import UnsafeProgressTopic
from spark_connector.inspection import Inspector, Position, SinkState, Transaction
from spark_connector.progress import Marker
from tallystick.cli.connecting import addresses
from tallystick.cli.durations import in_words
from tallystick.cli.tables import say
from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost, KafkaError, NoWayIn, UnsupportedByBroker
from tallystick.client.security_settings import BadSettings, security_of
from tallystick.written import counted

T = TypeVar("T")
Command = Callable[..., None]

_PROGRESS_TOPIC = "__spark_sink_progress"
_ADVICE = (
    "A streaming query's sink id is its option sinkId, or `spark-` and the query's id; "
    "`tallystick spark progress` without one lists all"
)


class _Unknown(Exception):
    """Nobody knows the sink."""


def _options(command: Command) -> Command:
    """What every command here takes."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout."),
        click.option("--progress-topic", default=_PROGRESS_TOPIC, show_default=True, help="The sink's control topic."),
        click.option("--command-config", type=click.File(encoding="utf-8"), help="Settings of a client, as for Kafka."),
        click.option("--timeout", default=15.0, show_default=True, help="Seconds to wait for a broker that is away."),
        click.option("--bootstrap-server", "bootstrap", required=True, callback=addresses, help="host:port,host:port"),
    ):
        command = option(command)
    return command


@click.group()
def spark() -> None:
    """Look after the exactly-once sinks of Spark queries, on any Kafka 3.0 or newer."""


@spark.command()
@click.argument("sink_id")
@click.option("--group", help="Also the committed offsets of this consumer group (the sink's option groupId).")
@_options
def describe(sink_id: str, group: str | None, as_json: bool, **where: Any) -> None:
    """Last batch, open transaction and lag of a sink."""

    async def look(inspector: Inspector) -> SinkState:
        return await _known(inspector, sink_id, group)

    state = _asked(look, **where)
    _say(described_json(state, now_ms()) if as_json else described(state, now_ms()))


@spark.command()
@click.argument("sink_id", required=False)
@_options
def progress(sink_id: str | None, as_json: bool, **where: Any) -> None:
    """The last batch of a sink, partition by partition; without SINK_ID, one line for each sink."""

    async def look(inspector: Inspector) -> SinkState:
        assert sink_id is not None
        return await _known(inspector, sink_id, None)

    async def look_at_all(inspector: Inspector) -> dict[str, list[tuple[str, Marker]]]:
        return await inspector.sinks()

    if sink_id is None:
        sinks = _asked(look_at_all, **where)
        _say(listed_json(sinks) if as_json else listed(sinks, now_ms()))
    else:
        state = _asked(look, **where)
        _say(described_json(state, now_ms()) if as_json else partitions_of(state, now_ms()))


@spark.command("abort-open")
@click.argument("sink_id")
@_options
def abort_open(sink_id: str, as_json: bool, **where: Any) -> None:
    """End the transaction that a dead query has left open, so that readers go on.

    A query that is alive is fenced: it fails, and may be started again without loss or double.
    """

    async def act(inspector: Inspector) -> Transaction | None:
        await _known(inspector, sink_id, None)
        return await inspector.abort_open(sink_id)

    ended = _asked(act, **where)
    if as_json:
        _say([json.dumps({"sink": sink_id, "ended": None if ended is None else asdict(ended)})])
    elif ended is None:
        _say([f"{sink_id}: nothing is open, nothing was done"])
    else:
        outcome = "settled as it was decided" if ended.is_decided else "aborted; whoever held it is fenced"
        _say([f"{sink_id}: {_transaction(ended, now_ms())}", f"It is {outcome}."])


async def _known(inspector: Inspector, sink_id: str, group: str | None) -> SinkState:
    state = await inspector.state(sink_id, group)
    if state is None:
        topic = inspector.progress_topic
        raise _Unknown(f"neither the transaction coordinator nor {topic} knows a sink {sink_id!r}. {_ADVICE}.")
    return state


def _asked(
    work: Callable[[Inspector], Coroutine[Any, Any, T]],
    *,
    bootstrap: str,
    progress_topic: str,
    timeout: float,
    command_config: Any,
) -> T:
    """Run some work beside a client; ends the process with a sentence where it fails."""

    async def connected() -> T:
        settings = read_properties("" if command_config is None else command_config.read())
        client = await Client.connect(
            bootstrap, client_id="tallystick-spark-cli", patience_s=timeout, security=security_of(settings)
        )
        try:
            return await work(Inspector(client, progress_topic, timeout))
        finally:
            await client.close()

    try:
        return asyncio.run(connected())
    except (BadProperties, BadSettings) as problem:
        sys.exit(f"tallystick: the settings cannot be used: {problem}")
    except NoWayIn as problem:
        sys.exit(f"tallystick: {problem}")
    except (_Unknown, UnsafeProgressTopic) as error:
        sys.exit(f"tallystick: {error}")
    except UnsupportedByBroker as error:
        sys.exit(f"tallystick: the broker does not list what is needed ({error}): Kafka 3.0 or newer is")
    except KafkaError as error:
        sys.exit(f"tallystick: the broker at {bootstrap} refuses: {error}")
    except (ConnectionLost, OSError) as error:
        sys.exit(f"tallystick: no broker answers at {bootstrap}: {error}")


def _say(lines: list[str]) -> None:
    for line in lines:
        say(line)


def _transaction(found: Transaction | None, now: int) -> str:
    if found is None:
        return "the coordinator does not know this transactional id (any more)"
    holder = f"producer {found.producer_id} epoch {found.producer_epoch}"
    if not found.is_open:
        return f"none open ({found.state}, {holder})"
    where = ", ".join(found.partitions) or "no partition yet"
    age, timeout = in_words(now - found.started_ms), f"{found.timeout_ms / 1000:g} s"
    return f"{found.state} for {age}, {holder}, timeout {timeout}, in {where}"


def _lag(positions: list[Position]) -> str:
    unknown = sorted({position.topic for position in positions if position.lag is None})
    text = f"lag {sum(position.lag or 0 for position in positions)} in {counted(len(positions), 'partition')}"
    return f"{text}; not on this cluster: {', '.join(unknown)}" if unknown else text


def _by_topic(positions: list[Position]) -> list[tuple[str, list[Position]]]:
    topics = sorted({position.topic for position in positions})
    return [(topic, [position for position in positions if position.topic == topic]) for topic in topics]


def described(state: SinkState, now: int) -> list[str]:
    """`describe`, line by line."""
    lines = [f"sink         {state.sink_id}", f"transaction  {_transaction(state.transaction, now)}"]
    for query in state.queries:
        rows = sum(sum(counts.values()) for counts in query.records.values())
        into = ", ".join(sorted(query.records)) or "no topic"
        lines.append(f"query        {query.query}")
        lines.append(
            f"  last batch {query.batch}, committed {in_words(now - query.written_ms)} ago, "
            f"{counted(rows, 'record')} in {into}"
        )
        lines += [f"  source     {topic}: {_lag(positions)}" for topic, positions in _by_topic(query.source)]
    if not state.queries:
        lines.append("query        no batch is committed yet")
    lines += [f"group        {topic}: {_lag(positions)}" for topic, positions in _by_topic(state.group)]
    return lines


def partitions_of(state: SinkState, now: int) -> list[str]:
    """`progress SINK_ID`, line by line."""
    lines = [] if state.queries else [f"{state.sink_id}: no batch is committed yet"]
    for query in state.queries:
        lines.append(f"query {query.query}: batch {query.batch}, committed {in_words(now - query.written_ms)} ago")
        for position in query.source:
            end = "not on this cluster" if position.end is None else f"of {position.end}, lag {position.lag}"
            lines.append(f"  read     {position.topic}-{position.partition}  up to {position.offset} {end}")
        for topic, counts in sorted(query.records.items()):
            numbered = sorted(counts.items(), key=lambda item: int(item[0]))
            lines += [f"  written  {topic}-{partition}  {counted(count, 'record')}" for partition, count in numbered]
    return lines


def listed(sinks: dict[str, list[tuple[str, Marker]]], now: int) -> list[str]:
    """`progress`, a line per sink: the query that wrote last."""
    if not sinks:
        return ["no sink has committed a batch yet"]
    return [
        f"{sink_id}  query {queries[0][0]}  batch {queries[0][1].batch}  {in_words(now - queries[0][1].written_ms)} ago"
        for sink_id, queries in sinks.items()
    ]


def described_json(state: SinkState, now: int) -> list[str]:
    """The same as data; ages in milliseconds."""
    fields = asdict(state)
    if state.transaction is not None:
        is_open = state.transaction.is_open
        fields["transaction"]["open"] = is_open
        fields["transaction"]["age_ms"] = now - state.transaction.started_ms if is_open else None
    for query, shown in zip(state.queries, fields["queries"], strict=True):
        shown["age_ms"] = now - query.written_ms
        shown["lag"] = sum(position.lag or 0 for position in query.source)
    fields["group_lag"] = sum(position.lag or 0 for position in state.group)
    return [json.dumps(fields)]


def listed_json(sinks: dict[str, list[tuple[str, Marker]]]) -> list[str]:
    """The same as data."""
    found = {sink: [{"query": query, **asdict(marker)} for query, marker in queries] for sink, queries in sinks.items()}
    return [json.dumps({"sinks": found})]
