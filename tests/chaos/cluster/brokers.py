"""Three brokers in processes over one database, and over a bucket where that is wanted. They are reached through links,
and so are the database and the bucket from each.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from tallystick.process import BrokerProcess
from tests.chaos.cluster import namespaces
from tests.chaos.cluster.database import Database
from tests.chaos.cluster.links import Links
from tests.chaos.cluster.namespaces import CLIENTS, DATABASES, Network
from tests.harness.proxy import CuttingProxy, free_port
from tests.harness.together import start_together
from tests.shared_store.objects.s3_server import BUCKET, Versitygw, environment

NUMBER_OF_NODES = 3
PORT = 9092
"""Of each node that has an address of its own."""
START_S = 90.0
SESSION_MS = 4_000
FOLDER = "chaos"
"""Of the bucket."""
OF_SEVERAL = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "400",
    "tallystick.store.memory.bytes": "2000000",
}


class Node:
    """One broker, and the links to it and from it to the database and the bucket."""

    def __init__(self, node_id: int, folder: Path, links: Links, settings: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.links = links
        named = {
            **settings,
            **OF_SEVERAL,
            "node.id": str(node_id),
            "advertised.listeners": f"PLAINTEXT://{links.bootstrap}",
        }
        if links.bucket is not None:
            named["tallystick.store.objects"] = f"s3://{BUCKET}/{FOLDER}"
        options = ["--store", Database.url(links.databases)]
        options += [part for name, text in named.items() for part in ("--set", f"{name}={text}")]
        self.process = BrokerProcess(
            folder / f"node-{node_id}", options=options, port=links.port, start_seconds=START_S
        )
        self.process.has_data = False
        self.process.host, self.process.prefix = links.host, links.prefix
        if links.bucket is not None:
            host, port = links.bucket
            self.process.environment |= environment(port, host=host)

    @property
    def bootstrap(self) -> str:
        return self.links.bootstrap

    def start(self) -> None:
        """Raises `BrokerFailed`."""
        self.process.port = self.links.port
        self.process.start()

    def mend(self) -> None:
        for link in self.links.all:
            link.mend()

    def close(self) -> None:
        self.process.close()
        for link in self.links.all:
            link.stop()


class Brokers:
    """What a run takes for its broker: see `tallystick.process.BrokerProcess`."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str], *, has_bucket: bool, in_namespaces: bool = False
    ) -> None:
        numbers = range(1, 1 + NUMBER_OF_NODES)
        self.bucket: Versitygw | None = None
        with contextlib.ExitStack() as made:
            self.network = Network(numbers) if in_namespaces else None
            if self.network is not None:
                made.callback(self.network.close)
            self.database = Database(self.network)
            made.callback(self.database.close)
            if has_bucket:
                self.bucket = Versitygw(
                    "127.0.0.1" if self.network is None else self.network.address(namespaces.BUCKET)
                )
                made.callback(self.bucket.close)
            self.nodes = [Node(number, folder, self._links(number), settings) for number in numbers]
            for one in self.nodes:
                made.callback(one.close)
            self._made = made.pop_all()

    def _links(self, number: int) -> Links:
        if self.network is None:
            return on_loopback(self.database, self.bucket)
        return in_network(self.network, number, self.database, self.bucket)

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
        self._made.close()


def on_loopback(database: Database, bucket: Versitygw | None) -> Links:
    port = free_port()
    to_it = CuttingProxy(free_port(), lambda: port).start()
    to_database = database.ways()
    to_bucket = [] if bucket is None else [CuttingProxy(free_port(), lambda: bucket.port).start()]
    return Links(
        host="127.0.0.1",
        port=port,
        bootstrap=to_it.bootstrap,
        databases=[way.bootstrap for way in to_database],
        bucket=("127.0.0.1", to_bucket[0].port) if to_bucket else None,
        to_it=[to_it],
        to_database=[*to_database],
        to_bucket=[*to_bucket],
    )


def in_network(network: Network, number: int, database: Database, bucket: Versitygw | None) -> Links:
    others = [other for other in range(1, 1 + NUMBER_OF_NODES) if other != number]
    host = network.address(number)
    return Links(
        host=host,
        port=PORT,
        bootstrap=f"{host}:{PORT}",
        databases=database.hosts,
        bucket=None if bucket is None else (bucket.host, bucket.port),
        to_it=[network.way(number, CLIENTS, *others)],
        to_database=[network.way(place, number) for place in DATABASES],
        to_bucket=[network.way(namespaces.BUCKET, number)],
        to_others=[network.way(other, number) for other in others],
        to_all=[network.way(number)],
        prefix=network.prefix_of(number),
    )
