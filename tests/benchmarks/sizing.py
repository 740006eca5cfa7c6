"""What loads ask of the database and of the bucket, which is what a cluster is sized by and paid for: objects, rows,
WAL, commits. Part of `make bench-cluster`.

What is counted is PostgreSQL's own: rows that were inserted, where the WAL ends. A load runs long enough that a
heartbeat more or less is not seen; what an idle node asks is counted by itself.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.table import Table

from tests.benchmarks import loads
from tests.benchmarks.cluster_nodes import PATIENCE_S, nodes
from tests.shared_store.objects.s3_server import S3Server
from tests.shared_store.postgresql_server import PostgresqlServer

RECORD = b"x" * 1000
AT_ONCE = 200_000
"""Records that are written as fast as they go."""
_COUNTED = """
SELECT (SELECT count(*) FROM object WHERE upload_id IS NOT NULL) AS uploads,
    pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal, xact_commit AS commits,
    (SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'object'::regclass) AS objects,
    (SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'run'::regclass) AS runs
FROM pg_stat_database WHERE datname = current_database()
"""
_SETTLED_S = 2.0
"""Counters of PostgreSQL are told by its backends once a second at most."""


@dataclass(frozen=True, slots=True)
class Load:
    """`rate`: records of 1 KB a second; None is as fast as it goes. Without a linger there is no bucket."""

    rate: int | None
    partitions: int
    linger_ms: int | None

    def __str__(self) -> str:
        pace = "as fast as it goes" if self.rate is None else f"{self.rate / 1000:g} MB/s"
        where = "no bucket" if self.linger_ms is None else f"linger {self.linger_ms} ms"
        return f"{pace}, {self.partitions} partitions, {where}"


PRICED = tuple(Load(rate, 12, linger_ms) for linger_ms in (0, 50, 250) for rate in (100, 1000, None))
"""What a bucket is paid for, by the linger."""
SIZED = (
    *(Load(10_000, partitions, 50) for partitions in (1, 12, 100)),
    *(Load(rate, 12, 250) for rate in (10_000, 25_000)),
    Load(10_000, 12, None),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What PostgreSQL has counted by a moment, or between two."""

    uploads: int
    objects: int
    runs: int
    commits: int
    wal: int

    def since(self, before: "Asked") -> "Asked":
        return Asked(
            self.uploads - before.uploads,
            self.objects - before.objects,
            self.runs - before.runs,
            self.commits - before.commits,
            self.wal - before.wal,
        )


def table_of_loads(server: PostgresqlServer, bucket: S3Server | None, seconds: float) -> Table:
    table = Table(title="what records ask for")
    heads = (
        "load",
        "objects a s",
        "KB an object",
        "runs an object",
        "WAL an object, KB",
        "WAL a MB, KB",
        "objects a GB",
    )
    for column in (*heads, "p50, ms"):
        table.add_column(column)
    for number, load in enumerate((*PRICED, *SIZED)):
        if load.linger_ms is None or bucket is not None:
            table.add_row(str(load), *_row(server, bucket, load, f"sizing_{number}", seconds))
    return table


def _row(server: PostgresqlServer, bucket: S3Server | None, load: Load, schema: str, seconds: float) -> list[str]:
    count = AT_ONCE if load.rate is None else int(load.rate * seconds)
    own = None if load.linger_ms is None else bucket
    linger = {} if load.linger_ms is None else {"tallystick__store__objects__linger__ms": load.linger_ms}
    with nodes(server, 1, schema, own, **linger) as (node,):
        half_ms, took_s, asked = _written(node.bootstrap, load, count, lambda: _asked(server, schema))
    made, megabytes = max(1, asked.objects if own is None else asked.uploads), count * len(RECORD) / 1e6
    wal_kb = asked.wal / 1000
    figures = (made / took_s, 1000 * megabytes / made, asked.runs / made, wal_kb / made, wal_kb / megabytes)
    return [*(f"{figure:.3g}" for figure in figures), f"{1000 * made / megabytes:.0f}", f"{half_ms:.0f}"]


def _written(bootstrap: str, load: Load, count: int, asked: Callable[[], Asked]) -> tuple[float, float, Asked]:
    """Milliseconds that half of the records took at most, seconds for all, and what was asked. The producer is gone
    with this, before its broker is."""
    writer = _Writer(bootstrap, load.partitions)
    writer.write(min(count, 1000), load.rate)  # leaders are known, logs are open
    before, began = asked(), time.perf_counter()
    half_ms = writer.write(count, load.rate)
    return half_ms, time.perf_counter() - began, asked().since(before)


class _Writer:
    def __init__(self, bootstrap: str, partitions: int) -> None:
        self._partitions = partitions
        self._topic = loads.fresh(bootstrap, partitions)
        self._producer = Producer({**loads.QUIET, "bootstrap.servers": bootstrap, "linger.ms": 5})

    def write(self, count: int, rate: int | None) -> float:
        """Milliseconds until half of the records were acknowledged, each from when it was sent."""
        took: list[float] = []
        began = time.perf_counter()
        for number in range(count):
            self._send(number, took)
            self._producer.poll(0)
            while rate is not None and time.perf_counter() < began + number / rate:
                self._producer.poll(0.001)
        if self._producer.flush(PATIENCE_S):
            raise SystemExit("a record was not acknowledged")
        return sorted(took)[count // 2] * 1000

    def _send(self, number: int, took: list[float]) -> None:
        sent = time.perf_counter()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise SystemExit(f"a record was not acknowledged: {error}")
            took.append(time.perf_counter() - sent)

        while True:
            try:
                partition = number % self._partitions
                return self._producer.produce(self._topic, RECORD, partition=partition, on_delivery=delivered)
            except BufferError:
                self._producer.poll(0.01)


def table_of_coordinators(server: PostgresqlServer, seconds: float) -> Table:
    """Internal topics are in the database, with a bucket, too."""
    table = Table(title="what coordinators ask for, over PostgreSQL")
    for column in ("load", "a second", "commits each", "rows of run each", "WAL each, KB"):
        table.add_column(column)
    kinds: tuple[tuple[str, Callable[[str, float], int]], ...] = (
        ("a node that is idle: a second", _idle),
        ("transactions of ten records to four partitions, 1 producer", partial(_transactions, producers=1)),
        ("the same, 8 producers", partial(_transactions, producers=8)),
        ("offsets of twelve partitions, committed by one group", _offsets),
    )
    for number, (name, load) in enumerate(kinds):
        schema = f"coordinators_{number}"
        with nodes(server, 1, schema) as (node,):
            load(node.bootstrap, 2.0)
            before, began = _asked(server, schema), time.perf_counter()
            done = load(node.bootstrap, seconds)
            took_s = time.perf_counter() - began
            asked = _asked(server, schema).since(before)
        figures = (done / took_s, asked.commits / done, asked.runs / done, asked.wal / 1000 / done)
        table.add_row(name, *(f"{figure:.3g}" for figure in figures))
    return table


def _idle(bootstrap: str, seconds: float) -> int:
    time.sleep(seconds)
    return round(seconds)


def _transactions(bootstrap: str, seconds: float, *, producers: int) -> int:
    return int(loads.transactions(bootstrap, producers, seconds)["transactions"])


def _offsets(bootstrap: str, seconds: float) -> int:
    admin, topic = AdminClient({**loads.QUIET, "bootstrap.servers": bootstrap}), "offsets"
    if topic not in admin.list_topics(timeout=PATIENCE_S).topics:
        admin.create_topics([NewTopic(topic, 12)])[topic].result(PATIENCE_S)
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    member = Consumer({**loads.QUIET, **settings})
    done, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        member.commit(offsets=[TopicPartition(topic, index, done) for index in range(12)], asynchronous=False)
        done += 1
    member.close()
    return done


def _asked(server: PostgresqlServer, schema: str) -> Asked:
    time.sleep(_SETTLED_S)
    (row,) = asyncio.run(server.sql(_COUNTED, schema=schema))
    return Asked(*(int(row[name]) for name in ("uploads", "objects", "runs", "commits", "wal")))
