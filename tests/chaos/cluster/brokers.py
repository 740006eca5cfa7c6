"""Three brokers in processes over one database. They are reached through links, and so is the database from each."""

from collections.abc import Mapping
from pathlib import Path

from tallystick.process import BrokerProcess
from tests.chaos.cluster.database import Database
from tests.harness.proxy import CuttingProxy, free_port
from tests.harness.together import start_together

NUMBER_OF_NODES = 3
START_S = 90.0
SESSION_MS = 2_500
OF_SEVERAL = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "400",
    "tallystick.store.memory.bytes": "2000000",
}


class Node:
    """One broker, and the links to it and from it to the database."""

    def __init__(self, node_id: int, folder: Path, database: Database, settings: Mapping[str, str]) -> None:
        self.node_id = node_id
        port = free_port()
        self.to_it = CuttingProxy(free_port(), lambda: port).start()
        self.to_database = database.ways()
        named = {
            **settings,
            **OF_SEVERAL,
            "node.id": str(node_id),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.to_it.port}",
        }
        options = ["--store", database.url(self.to_database)]
        options += [part for name, text in named.items() for part in ("--set", f"{name}={text}")]
        self.process = BrokerProcess(folder / f"node-{node_id}", options=options, port=port, start_seconds=START_S)
        self.process.has_data = False
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
        return [self.to_it, *self.to_database]

    def mend(self) -> None:
        for link in self.links:
            link.mend()

    def close(self) -> None:
        self.process.close()
        for link in self.links:
            link.stop()


class Brokers:
    """What a run takes for its broker: see `tallystick.process.BrokerProcess`."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.database = Database()
        self.nodes = [Node(1 + number, folder, self.database, settings) for number in range(NUMBER_OF_NODES)]

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
        self.database.close()
