"""`make bench-cluster`: one broker over its data folder beside one, two and three nodes over PostgreSQL, and with
objects in a bucket; what loads ask of database and bucket; for how long partitions take no writes when the node that
leads them stops, or dies.

All of it shares one machine, the database, the bucket (versitygw) and the client included: what more nodes cost is
seen here, not what more machines bring. It is skipped, with a sentence, where there is no PostgreSQL; the bucket is
left out, with another, where there is no versitygw.
"""

import argparse
import asyncio
import time
from collections.abc import Callable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from tallystick.process import BrokerProcess
from tests.benchmarks.cluster_nodes import PATIENCE_S, bootstrap_of, nodes
from tests.benchmarks.cluster_rows import measured
from tests.benchmarks.sizing import table_of_coordinators, table_of_loads
from tests.shared_store.objects import s3_server
from tests.shared_store.objects.s3_server import S3Server
from tests.shared_store.postgresql_server import PostgresqlServer, why_not

SESSION_MS = 3000
DETECTION = {"broker__session__timeout__ms": SESSION_MS, "broker__heartbeat__interval__ms": 500}
STEADY = 100
"""Records that are acknowledged before a node ends."""
PARTS = ("rows", "sizing", "gaps")


class _Gap:
    """One record after the other to each of some partitions, all when those before were acknowledged."""

    def __init__(self, bootstrap: str, partitions: list[int]) -> None:
        settings = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0, "reconnect.backoff.max.ms": 100}
        self._producer = Producer(settings | {"retry.backoff.ms": 20, "topic.metadata.refresh.interval.ms": 500})
        self._partitions = partitions

    def acknowledged(self) -> float:
        """When the next ones were, all of them."""
        for partition in self._partitions:
            self._producer.produce("gap", b"x", partition=partition)
        if self._producer.flush(PATIENCE_S):
            raise SystemExit("a record was not acknowledged")
        return time.perf_counter()


def _gap_ms(some: list[BrokerProcess], end: Callable[[BrokerProcess], object], partitions: int) -> float:
    """The longest time between two acknowledgements around the end of a node, by all partitions that it leads."""
    bootstrap = bootstrap_of(some)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("gap", partitions)])["gap"].result(PATIENCE_S)
    victim = some[-1]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        topic = admin.list_topics("gap", timeout=PATIENCE_S).topics["gap"]
        led = [index for index, one in topic.partitions.items() if one.leader == len(some)]
        if len(led) >= partitions // len(some):
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


def _measured(server: PostgresqlServer, bucket: S3Server | None, options: argparse.Namespace) -> None:
    console = Console(width=150)
    if "rows" in options.only:
        console.print(measured(server, bucket, options.rounds).table())
    if "sizing" in options.only:
        console.print(table_of_loads(server, bucket, options.seconds))
        console.print(table_of_coordinators(server, options.seconds))
    for count in options.partitions if "gaps" in options.only else ():
        for place in (None, bucket) if bucket is not None else (None,):
            console.print(_gaps(server, place, options.rounds, count))


def _gaps(server: PostgresqlServer, bucket: S3Server | None, rounds: int, partitions: int) -> Table:
    gaps: dict[str, list[float]] = {"stops in order": [], "is killed": []}
    where = "PostgreSQL" if bucket is None else "a bucket"
    for number in range(rounds):
        for what, end in (("stops in order", BrokerProcess.stop), ("is killed", BrokerProcess.kill)):
            schema = f"gap_{where[0].lower()}_{partitions}_{number}_{what[:2]}"
            with nodes(server, 3, schema, bucket, **DETECTION) as some:
                gaps[what].append(_gap_ms(some, end, partitions))
    head = f"partitions of a node take no writes, ms; {partitions} on three nodes over {where}; session {SESSION_MS} ms"
    table = Table(title=head)
    for column in ("its node", "least", "median", "most"):
        table.add_column(column)
    for what, found in gaps.items():
        ordered = sorted(found)
        table.add_row(what, f"{ordered[0]:.0f}", f"{ordered[len(ordered) // 2]:.0f}", f"{ordered[-1]:.0f}")
    return table


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
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3, help="of the rows, and of each end of a node")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load that is sized")
    parser.add_argument("--partitions", type=int, nargs="+", default=[12, 1000], help="of which some take no writes")
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
