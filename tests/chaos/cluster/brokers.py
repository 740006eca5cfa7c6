"""Three brokers in processes over one database, and over a bucket where that is wanted. They are reached through links,
and so are the database and the bucket from each.
"""

from collections.abc import Mapping
from pathlib import Path

from tallystick.process import BrokerProcess
from tests.chaos.cluster.database import Database
from tests.harness.proxy import CuttingProxy, free_port
from tests.harness.together import start_together
from tests.shared_store.objects.s3_server import BUCKET, Versitygw, environment

NUMBER_OF_NODES = 3
START_S = 90.0
SESSION_MS = 2_500
FOLDER = "chaos"
"""Of the bucket."""
OF_SEVERAL = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "400",
    "tallystick.store.memory.bytes": "2000000",
}


class Node:
    """One broker, and the links to it and from it to the database and the bucket."""

    def __init__(
        self, node_id: int, folder: Path, database: Database, bucket: Versitygw | None, settings: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        port = free_port()
        self.to_it = CuttingProxy(free_port(), lambda: port).start()
        self.to_database = database.ways()
        self.to_bucket: list[CuttingProxy] = []
        """One, where there is a bucket."""
        named = {
            **settings,
            **OF_SEVERAL,
            "node.id": str(node_id),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.to_it.port}",
        }
        if bucket is not None:
            named["tallystick.store.objects"] = f"s3://{BUCKET}/{FOLDER}"
        options = ["--store", database.url(self.to_database)]
        options += [part for name, text in named.items() for part in ("--set", f"{name}={text}")]
        self.process = BrokerProcess(folder / f"node-{node_id}", options=options, port=port, start_seconds=START_S)
        self.process.has_data = False
        if bucket is not None:
            self.to_bucket.append(CuttingProxy(free_port(), lambda: bucket.port).start())
            self.process.environment |= environment(self.to_bucket[0].port)
        self._port = port

    @property
    def bootstrap(self) -> str:
        return self.to_it.bootstrap

    def start(self) -> None:
        """Raises `BrokerFailed`."""
        self.process.port = self._port
        self.process.start()

    @property
    def links(self) -> list[CuttingProxy]:
        return [self.to_it, *self.to_database, *self.to_bucket]

    def mend(self) -> None:
        for link in self.links:
            link.mend()

    def close(self) -> None:
        self.process.close()
        for link in self.links:
            link.stop()


class Brokers:
    """What a run takes for its broker: see `tallystick.process.BrokerProcess`."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *, has_bucket: bool) -> None:
        self.database = Database()
        self.bucket = Versitygw() if has_bucket else None
        numbers = range(1, 1 + NUMBER_OF_NODES)
        self.nodes = [Node(number, folder, self.database, self.bucket, settings) for number in numbers]

    @property
    def bootstrap(self) -> str:
        return ",".join(one.bootstrap for one in self.nodes)

    def start(self) -> None:
        """All that do not run, at the same time. Raises what one of them raised."""
        start_together(one.start for one in self.nodes if not one.process.running)

    def logs(self) -> list[tuple[str, str]]:
        """Of all nodes that ever started, with their names."""
        logs = [(f"node {one.node_id}", one.process.log) for one in self.nodes]
        return [(name, log.read_text(errors="replace")) for name, log in logs if log.exists()]

    def close(self) -> None:
        for one in self.nodes:
            one.close()
        if self.bucket is not None:
            self.bucket.close()
        self.database.close()
