"""`make bench-cluster`: one broker over its data folder, one, two and three nodes over PostgreSQL, and one and three
with objects in a bucket, in one run; what a bucket is asked for; then for how long partitions take no writes when the
node that leads them stops, or dies.

All of it shares one machine, the database, the bucket (versitygw) and the client included: what more nodes cost is
seen here, not what more machines bring. It is skipped, with a sentence, where there is no PostgreSQL; the bucket is
left out, with another, where there is no versitygw.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from tallystick.process import BrokerProcess
from tests.benchmarks.bringing import measure
from tests.shared_store.objects import s3_server
from tests.shared_store.objects.s3_server import S3Server
from tests.shared_store.postgresql_server import PostgresqlServer, why_not

SESSION_MS = 3000
PATIENCE_S = 60.0
STEADY = 100
"""Records that are acknowledged before a node ends."""


def _node(
    stack: ExitStack, folder: Path, number: int, url: str, bucket: S3Server | None, apart: dict[str, object]
) -> BrokerProcess:
    settings = {"node.id": number, "broker.session.timeout.ms": SESSION_MS, "broker.heartbeat.interval.ms": 500} | apart
    options = ["--store", url, *(part for key, value in settings.items() for part in ("--set", f"{key}={value}"))]
    node = BrokerProcess(folder / f"node-{number}", options=options, start_seconds=PATIENCE_S)
    if bucket is not None:
        node.environment = s3_server.environment(bucket.port)
    stack.callback(node.close)
    return node.start()


@contextmanager
def _nodes(
    server: PostgresqlServer, count: int, name: str, bucket: S3Server | None = None, linger_ms: int | None = None
) -> Iterator[list[BrokerProcess]]:
    settings: dict[str, object] = {}
    if bucket is not None:
        settings["tallystick.store.objects"] = f"s3://{s3_server.BUCKET}/{name}"
    if linger_ms is not None:
        settings["tallystick.store.objects.linger.ms"] = linger_ms
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield [_node(stack, folder, number, server.url(name), bucket, settings) for number in range(1, count + 1)]


def _bench(bootstrap: str) -> dict[str, Any]:
    """The second of two runs: the first one makes topics and warms."""
    command = [sys.executable, "-P", "-m", "tallystick", "bench", "--json", "--bootstrap-server", bootstrap]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class _Gap:
    """One record after the other to each of some partitions, all when those before were acknowledged."""

    def __init__(self, bootstrap: str, partitions: list[int]) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "reconnect.backoff.max.ms": 100}
        self._producer = Producer(settings | {"retry.backoff.ms": 20, "topic.metadata.refresh.interval.ms": 500})
        self._partitions = partitions

    def acknowledged(self) -> float:
        """When the next ones were, all of them."""
        for partition in self._partitions:
            self._producer.produce("gap", b"x", partition=partition)
        if self._producer.flush(PATIENCE_S):
            raise SystemExit("a record was not acknowledged")
        return time.perf_counter()


def _gap_ms(nodes: list[BrokerProcess], end: Callable[[BrokerProcess], object], partitions: int) -> float:
    """The longest time between two acknowledgements around the end of a node, by all partitions that it leads."""
    bootstrap = ",".join(node.bootstrap for node in nodes)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("gap", partitions)])["gap"].result(PATIENCE_S)
    victim = nodes[-1]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        topic = admin.list_topics("gap", timeout=PATIENCE_S).topics["gap"]
        led = [index for index, one in topic.partitions.items() if one.leader == len(nodes)]
        if len(led) >= partitions // len(nodes):
            break
        if time.monotonic() > deadline:
            raise SystemExit("the node leads nothing")
    writer = _Gap(bootstrap, led)
    before = [writer.acknowledged() for _ in range(STEADY)][-1]
    end(victim)
    longest = 0.0
    for _ in range(STEADY):
        now = writer.acknowledged()
        before, longest = now, max(longest, now - before)
    return longest * 1000


def _brought(server: PostgresqlServer, bucket: S3Server) -> Table:
    @contextmanager
    def started(name: str, linger_ms: int) -> Iterator[BrokerProcess]:
        with _nodes(server, 1, name, bucket, linger_ms) as (node,):
            yield node

    return measure(server, started)


def _measured(server: PostgresqlServer, bucket: S3Server | None, options: argparse.Namespace) -> None:
    console = Console(width=110)
    if not options.only_gaps:
        _measure_rows(server, bucket, console)
    for count in options.partitions:
        _measure_gaps(server, console, options.rounds, count)


def _measure_rows(server: PostgresqlServer, bucket: S3Server | None, console: Console) -> None:
    rows: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        local = BrokerProcess(folder, start_seconds=PATIENCE_S)
        stack.callback(local.close)
        rows["a data folder"] = _bench(local.start().bootstrap)
    for count in (1, 2, 3):
        with _nodes(server, count, f"bench_{count}") as nodes:
            rows[f"{count} over PostgreSQL"] = _bench(",".join(node.bootstrap for node in nodes))
    for count in (1, 3) if bucket is not None else ():
        with _nodes(server, count, f"bench_apart_{count}", bucket) as nodes:
            rows[f"{count} and a bucket"] = _bench(",".join(node.bootstrap for node in nodes))
    console.print_json(json.dumps(rows))
    if bucket is not None:
        console.print(_brought(server, bucket))


def _measure_gaps(server: PostgresqlServer, console: Console, rounds: int, partitions: int) -> None:
    gaps: dict[str, list[float]] = {"stops in order": [], "is killed": []}
    for number in range(rounds):
        for what, end in (("stops in order", BrokerProcess.stop), ("is killed", BrokerProcess.kill)):
            with _nodes(server, 3, f"gap_{partitions}_{number}_{what[:2]}") as nodes:
                gaps[what].append(_gap_ms(nodes, end, partitions))
    table = Table(title=f"partitions of a node take no writes, ms; {partitions} on three; session {SESSION_MS} ms")
    for column in ("its node", "least", "median", "most"):
        table.add_column(column)
    for what, found in gaps.items():
        ordered = sorted(found)
        table.add_row(what, f"{ordered[0]:.0f}", f"{ordered[len(ordered) // 2]:.0f}", f"{ordered[-1]:.0f}")
    console.print(table)


def _with_a_bucket(server: PostgresqlServer, options: argparse.Namespace) -> None:
    if (reason := s3_server.why_not("versitygw")) is not None:
        print(f"nothing is measured with a bucket: {reason}")
        return _measured(server, None, options)
    bucket = s3_server.started("versitygw")
    try:
        _measured(server, bucket, options)
    finally:
        bucket.close()


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each end of a node")
    parser.add_argument("--partitions", type=int, nargs="+", default=[12, 1000])
    parser.add_argument(
        "--only-gaps", action="store_true", help="leave out what one node, two and three do in a second"
    )
    options = parser.parse_args()
    if (reason := why_not()) is not None:
        raise SystemExit(f"not measured: {reason}")
    server = PostgresqlServer()
    await server.start()
    try:
        await asyncio.get_running_loop().run_in_executor(None, _with_a_bucket, server, options)
    finally:
        server.close()


if __name__ == "__main__":
    asyncio.run(_main())
