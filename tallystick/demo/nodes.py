"""What the demo runs over, and kills one of: a broker, several nodes over one database, which may be the demo's own and
fail over, or several in one process.
"""

import secrets
import tempfile
from pathlib import Path
from typing import Protocol

from tallystick.child_broker import Broker
from tallystick.demo.database import OwnDatabase
from tallystick.process import BrokerProcess

SETTINGS = ("--set", "group.min.session.timeout.ms=1000")
NODE_SETTINGS = ("--set", "broker.session.timeout.ms=3000", "--set", "broker.heartbeat.interval.ms=500")


class Killable(Protocol):
    """Something that serves, of which one process, or one node, is killed."""

    folder: Path
    database: OwnDatabase | None
    """One that fails over meanwhile."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def what(self) -> str:
        """What is killed, in a sentence."""

    def kill(self) -> None: ...

    def start(self) -> object:
        """What was killed serves again when this returns; at first, all of it."""

    def close(self) -> None: ...


class OneBroker:
    """A broker with its data folder."""

    database: OwnDatabase | None = None

    def __init__(self, durability: str) -> None:
        self.folder = _folder()
        self.process = BrokerProcess(self.folder, options=["--durability", durability, *SETTINGS])

    @property
    def bootstrap(self) -> str:
        return self.process.bootstrap

    @property
    def what(self) -> str:
        return f"the broker (pid {self.process.pid})"

    def kill(self) -> None:
        self.process.kill()

    def start(self) -> object:
        return self.process.start()

    def close(self) -> None:
        self.process.close()


class NodesOverStore:
    """So many nodes over one database, in a schema of their own there; the first of them is killed."""

    database: OwnDatabase | None = None

    def __init__(self, url: str, count: int) -> None:
        self.folder = _folder()
        if "schema=" not in url:
            url += f"{'&' if '?' in url else '?'}schema=tallystick_demo_{secrets.token_hex(4)}"
        self.nodes = self._over(url, count)

    def _over(self, url: str, count: int) -> list[BrokerProcess]:
        return [
            BrokerProcess(
                self.folder / f"node-{number}",
                options=["--store", url, "--set", f"node.id={number}", *NODE_SETTINGS, *SETTINGS],
                start_seconds=60.0,
            )
            for number in range(1, count + 1)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def what(self) -> str:
        return f"node 1 of {len(self.nodes)} (pid {self.nodes[0].pid})"

    def kill(self) -> None:
        self.nodes[0].kill()

    def start(self) -> object:
        for node in self.nodes:
            if not node.running:
                node.start()
        return self

    def close(self) -> None:
        for node in self.nodes:
            node.close()


class NodesOverOwnDatabase(NodesOverStore):
    """So many nodes over a database that is started for them, with a standby, and ended after them."""

    def __init__(self, count: int) -> None:
        self.folder = _folder()
        self.database = self._own = OwnDatabase()
        self.nodes: list[BrokerProcess] = []
        self._count = count

    def start(self) -> object:
        if not self.nodes:
            self._own.start()
            self.nodes = self._over(self._own.url, self._count)
        return super().start()

    def close(self) -> None:
        super().close()
        self._own.close()


class NodesTogether:
    """So many nodes in one process, in memory; the one that controls is killed, and stays away."""

    database: OwnDatabase | None = None

    def __init__(self, count: int) -> None:
        self.folder = _folder()
        self._broker = Broker(nodes=count, control=True, config={"group.min.session.timeout.ms": 1000})
        self._runs = False

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    @property
    def what(self) -> str:
        return f"node {self._broker.controller()}, the controller"

    def kill(self) -> None:
        self._broker.kill_node(self._broker.controller())

    def start(self) -> object:
        if self._runs:
            self._broker.start_nodes()
        else:
            self._broker.start()
        self._runs = True
        return self

    def close(self) -> None:
        self._broker.close()


def killable(durability: str, nodes: int, store: str, *, cluster: bool) -> Killable:
    """What the options ask for."""
    if cluster:
        return NodesOverOwnDatabase(nodes)
    if store:
        return NodesOverStore(store, nodes)
    return NodesTogether(nodes) if nodes > 1 else OneBroker(durability)


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="tallystick-demo-"))
