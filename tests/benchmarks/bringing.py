"""How many objects a load makes in a bucket, which is what a bucket is paid for, and how long its records take: part of
`make bench-cluster`.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.table import Table

from tallystick.process import BrokerProcess
from tests.shared_store.postgresql_server import PostgresqlServer

PATIENCE_S = 60.0
PARTITIONS = 12
RECORD = b"x" * 1000
LOADS = (("100 records a second", 100), ("1 MB a second", 1000))
SECONDS = 10
AT_ONCE = 200_000
"""Records that are written as fast as they go."""
LINGERS_MS = (0, 50, 250)

Started = Callable[[str, int], AbstractContextManager[BrokerProcess]]
_MADE = "SELECT count(*) AS made FROM object WHERE upload_id IS NOT NULL"


class _Load:
    """One producer, and the objects that come of what it writes."""

    def __init__(self, server: PostgresqlServer, schema: str, bootstrap: str) -> None:
        self._server, self._schema = server, schema
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(PATIENCE_S)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._took: list[float] = []

    def _objects(self) -> int:
        (row,) = asyncio.run(self._server.sql(_MADE, schema=self._schema))
        return int(row["made"])

    def _send(self, number: int) -> None:
        sent = time.perf_counter()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise SystemExit(f"a record was not acknowledged: {error}")
            self._took.append(time.perf_counter() - sent)

        while True:
            try:
                return self._producer.produce("t", RECORD, partition=number % PARTITIONS, on_delivery=delivered)
            except BufferError:
                self._producer.poll(0.01)

    def measured(self, count: int, rate: int | None) -> tuple[float, float, float]:
        """Seconds, objects, and milliseconds until half of the records were acknowledged."""
        before, began = self._objects(), time.perf_counter()
        self._took.clear()
        for number in range(count):
            self._send(number)
            self._producer.poll(0)
            while rate is not None and time.perf_counter() < began + number / rate:
                self._producer.poll(0.001)
        if self._producer.flush(PATIENCE_S):
            raise SystemExit("a record was not acknowledged")
        seconds = time.perf_counter() - began
        return seconds, self._objects() - before, sorted(self._took)[count // 2] * 1000


def measure(server: PostgresqlServer, started: Started) -> Table:
    """`started` runs a broker over a schema and a bucket, with so many milliseconds of linger."""
    table = Table(title="objects that a load makes in the bucket")
    for column in ("linger, ms", "load", "objects a second", "KB an object", "objects a GB", "p50, ms"):
        table.add_column(column)
    for linger_ms in LINGERS_MS:
        schema = f"bringing_{linger_ms}"
        with started(schema, linger_ms) as node:
            load = _Load(server, schema, node.bootstrap)
            for name, rate in (*LOADS, ("as fast as it goes", None)):
                count = AT_ONCE if rate is None else rate * SECONDS
                seconds, objects, half_ms = load.measured(count, rate)
                size_kb = count * len(RECORD) / 1000 / max(1, objects)
                row = (f"{objects / seconds:.1f}", f"{size_kb:.0f}", f"{1_000_000 / size_kb:.0f}", f"{half_ms:.0f}")
                table.add_row(str(linger_ms), name, *row)
    return table
