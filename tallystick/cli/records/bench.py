"""`tallystick bench`: a small load on a cluster, with rates and latencies.

Status 0 when it was measured, 1 with a sentence on stderr when it was not, 2 for wrong options, 130 when it was
interrupted. The topic that it makes is deleted, whatever ends it but a kill.
"""

import json
from collections.abc import Sequence
from typing import Any

import click

from protocol.records.compression import NAMES
from tallystick.administration.topics import BY_BROKER, create, delete
from tallystick.cli.connecting import asked, connecting
from tallystick.cli.records.interrupted import ending_when_interrupted
from tallystick.cli.tables import say, show
from tallystick.client.background import fresh_name
from tallystick.client.client import Client
from tallystick.records.load import Measured, Wanted, measure


@click.command()
@click.option("--records", type=click.IntRange(min=1), default=100_000, show_default=True, help="Written in batches.")
@click.option(
    "--record-size", "record_bytes", type=click.IntRange(min=1), default=1000, show_default=True, help="Bytes."
)
@click.option("--singles", type=click.IntRange(min=1), default=200, show_default=True, help="Records, one by one.")
@click.option("--transactions", type=click.IntRange(min=1), default=100, show_default=True, help="Of ten records each.")
@click.option("--partitions", type=click.IntRange(min=1), default=4, show_default=True, help="Of its topic.")
@click.option("--compression", type=click.Choice(NAMES), default="none", help="Of the batches.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@connecting
def bench(*, compression: str, as_json: bool, bootstrap: str, command_config: Any, **amounts: int) -> None:
    """Measure what one client sees of a cluster, on any Kafka 3.0 or newer, with a topic of its own.

    This is no comparison of brokers: the client is in Python, and does one thing at a time.
    """
    wanted = Wanted(f"tallystick-bench-{fresh_name()}", compression=NAMES.index(compression), **amounts)
    with ending_when_interrupted():
        found = asked(bootstrap, command_config, lambda client: _measured(client, wanted, quiet=as_json))
    rows = [_row(one) for one in found]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    columns = ("What", "Count", "PerSecond", "MbPerSecond", "P50Ms", "P95Ms", "P99Ms")
    show(columns, [[_cell(value) for value in row.values()] for row in rows])


async def _measured(client: Client, wanted: Wanted, *, quiet: bool) -> Sequence[Measured]:
    await create(client, wanted.topic, partitions=wanted.partitions, replication_factor=BY_BROKER, configs={})
    try:
        return await measure(client, wanted, lambda name: None if quiet else say(f"{name}…", err=True))
    finally:
        await delete(client, wanted.topic)


def _row(one: Measured) -> dict[str, str | int | float | None]:
    times = (one.quantile_ms(share) for share in (0.5, 0.95, 0.99))
    p50, p95, p99 = (None if time is None else round(time, 2) for time in times)
    rates = {"perSecond": round(one.per_second, 1), "mbPerSecond": round(one.megabytes_per_second, 2)}
    return {"what": one.what, "count": one.count, **rates, "p50Ms": p50, "p95Ms": p95, "p99Ms": p99}


def _cell(value: str | float | None) -> str | None:
    return None if value is None else str(value)
