"""Brokers in processes over a database and a bucket, and somebody who looks at both."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tallystick.process import BrokerProcess
from tests.shared_store.objects.line import Line
from tests.shared_store.objects.s3_server import BUCKET, SECRET, Looking, environment
from tests.shared_store.postgresql_server import PostgresqlServer
from tests.shared_store.test_a_broker import PATIENCE_S, Nodes

OLD_MS = 10_000_000


def named_in(postgresql: PostgresqlServer, schema: str) -> list[str]:
    """What rows of a database say lies in its bucket."""
    query = "SELECT cluster_id, upload_id FROM object CROSS JOIN cluster WHERE upload_id IS NOT NULL"
    ids = [(row["cluster_id"], row["upload_id"]) for row in asyncio.run(postgresql.sql(query, schema=schema))]
    return sorted(f"{cluster}/{one >> 32:08x}/{one & 0xFFFFFFFF:08x}" for cluster, one in ids)


class NodesApart(Nodes):
    """Those of one cluster. They reach the bucket over a line."""

    def __init__(self, folder: Path, postgresql: PostgresqlServer, schema: str, line: Line) -> None:
        super().__init__(folder, postgresql.url(schema))
        self.line, self.secret = line, SECRET
        self._postgresql, self._schema = postgresql, schema
        self._looking = Looking(line.to, schema)

    def node(self, node_id: int, **settings: str) -> BrokerProcess:
        made = super().node(node_id, **settings)
        made.options += ["--set", f"tallystick.store.objects=s3://{BUCKET}/{self._schema}"]
        made.environment = environment(self.line.port, secret=self.secret)
        return made

    def sql(self, query: str, *arguments: object) -> list[dict[str, object]]:
        found = asyncio.run(self._postgresql.sql(query, *arguments, schema=self._schema))
        return [dict(row) for row in found]

    def objects(self) -> list[str]:
        """What lies in the bucket."""
        return self._looking.names()

    def named(self) -> list[str]:
        """What rows of the database say lies there."""
        return named_in(self._postgresql, self._schema)

    def remove(self, name: str) -> None:
        """Behind everybody's back."""
        self._looking.delete(name)

    def rewrite(self, upload_id: int, change: Callable[[bytes], bytes]) -> str:
        """Behind everybody's back, too; the name of what was changed, as a node says it."""
        (cluster,) = self.sql("SELECT cluster_id FROM cluster")
        name = f"{cluster['cluster_id']}/{upload_id >> 32:08x}/{upload_id & 0xFFFFFFFF:08x}"
        self._looking.put(name, change(self._looking.bytes_of(name)))
        return f"s3://{BUCKET}/{self._schema}/{name}"

    def grow_old(self) -> None:
        """What no log holds, and who does not live, has been so for long."""
        for table, column in (("object", "dead_since"), ("heard", "at")):
            self.sql(
                f"UPDATE {table} SET {column} = {column} - $1 * interval '1 millisecond' WHERE {column} IS NOT NULL",
                OLD_MS,
            )

    def everything(self) -> str:
        """What lies in the bucket, what the database says of it, and what the last node has told."""
        rows = self.sql("SELECT object_id, upload_id, live_runs, dead_since, refused FROM object ORDER BY object_id")
        leaving = self.sql("SELECT upload_id FROM leaving")
        return "\n".join([*self.objects(), *map(str, rows), f"leaving: {leaving}", self.all[-1].log_end(4_000)])

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < deadline, f"it never happened: {what}\n{self.everything()}"
            time.sleep(0.05)
