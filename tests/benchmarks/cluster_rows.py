"""One broker over its data folder against one, two and three nodes over PostgreSQL, and over a bucket as well: loads of
`make bench`, in one run, each as a figure and as a ratio to the data folder."""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.table import Table

from tallystick.process import BrokerProcess
from tests.benchmarks import loads
from tests.benchmarks.cluster_nodes import PATIENCE_S, bootstrap_of, nodes
from tests.shared_store.objects.s3_server import S3Server
from tests.shared_store.postgresql_server import PostgresqlServer

SIZE, COUNT = 1000, 100_000
"""Bytes of a record, and records that are written and read as fast as they go."""
AWAITED = 300
TRANSACTIONS_S = 5.0
LOCAL = "a data folder"


@dataclass(slots=True)
class Figures:
    """Of each kind of cluster, by row: one value for each round."""

    found: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, kind: str, figures: Mapping[str, float]) -> None:
        for row, value in figures.items():
            self.found.setdefault(row, {}).setdefault(kind, []).append(value)

    def table(self) -> Table:
        """Medians, and what they are beside the data folder's."""
        kinds = list(next(iter(self.found.values())))
        table = Table(title="one client on one machine; beside each figure, how many times that of the data folder")
        for column in ("", *kinds):
            table.add_column(column)
        for row, of in self.found.items():
            base = statistics.median(of[LOCAL])
            medians = (statistics.median(of[kind]) for kind in kinds)
            table.add_row(row, *(f"{value:.4g} ({value / base:.2f})" for value in medians))
        return table


def measured(server: PostgresqlServer, bucket: S3Server | None, rounds: int) -> Figures:
    """Every kind of cluster once in a round, so that a machine that becomes slower does so for all."""
    kinds: dict[str, Callable[[str], AbstractContextManager[str]]] = {LOCAL: _local}
    for count in (1, 2, 3):
        kinds[f"{count} over PostgreSQL"] = partial(_over, server, count, None)
    for count in (1, 2, 3) if bucket is not None else ():
        kinds[f"{count} and a bucket"] = partial(_over, server, count, bucket)
    figures = Figures()
    for number in range(rounds):
        for index, (kind, started) in enumerate(kinds.items()):
            with started(f"rows_{number}_{index}") as bootstrap:
                figures.add(kind, _all_rows(bootstrap))
    return figures


@contextmanager
def _local(_: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder), start_seconds=PATIENCE_S)
        try:
            yield broker.start().bootstrap
        finally:
            broker.close()


@contextmanager
def _over(server: PostgresqlServer, count: int, bucket: S3Server | None, schema: str) -> Iterator[str]:
    with nodes(server, count, schema, bucket) as some:
        yield bootstrap_of(some)


def _all_rows(bootstrap: str) -> dict[str, float]:
    loads.produce(bootstrap, SIZE, COUNT // 10)  # warm
    topic, produced = loads.produce(bootstrap, SIZE, COUNT)
    consumed = loads.consume(bootstrap, topic, SIZE, COUNT, 1)
    one, eight = (loads.transactions(bootstrap, producers, TRANSACTIONS_S) for producers in (1, 8))
    return {
        "produce, 1 KB records, MB/s": produced["MB/s"],
        "consume them, MB/s": consumed["MB/s"],
        "one record, awaited: p50, ms": loads.awaited(bootstrap, AWAITED)["p50 ms"],
        "transactions a second, 1 producer": one["transactions/s"],
        "transactions a second, 8 producers": eight["transactions/s"],
    }
