"""A node of three in the place of the one broker that tests are written for.

`NodeInMemory` is the last of three nodes in one process, `NodeOverPostgresql` one of three processes over a database,
which is killed and started again as a broker is that has the others beside it. Clients are told the address of this
node alone: whatever it does not lead, coordinate or control they have to find.
"""

import asyncio
import atexit
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.shared_store.postgresql_server import PostgresqlServer, why_not

COUNT = 3
SESSION_MS = 4_000
PATIENCE_S = 120.0
GONE = "what three nodes have in memory is gone with their process"


def further(listeners: str, by: int) -> str:
    """On ports that are so much higher."""
    return re.sub(r":(\d+)", lambda port: f":{int(port[1]) + by}", listeners)


class NodeInMemory(BrokerProcess):
    """What needs files, or more than one life of a process, is skipped."""

    def __init__(self, folder: Path, *, options: Sequence[str]) -> None:
        super().__init__(folder, options=[*options, "--nodes", str(COUNT)], start_seconds=PATIENCE_S)
        self.has_data = False

    def start(self) -> "NodeInMemory":
        if self.starts:
            pytest.skip(GONE)
        super().start()
        return self

    def kill(self) -> None:
        pytest.skip(GONE)

    def close(self) -> None:
        super().kill()
        self._hang_up()

    def _wait_until_ready(self, ready: Path) -> str:
        return super()._wait_until_ready(ready).split(",")[-1]

    @property
    def data(self) -> Path:
        pytest.skip("nodes have no data folder")

    @data.setter
    def data(self, folder: Path) -> None:
        """There is none."""


class NodeOverPostgresql(BrokerProcess):
    """The others begin with its first start, go on when it is killed, and end when it is closed."""

    def __init__(self, folder: Path, *, options: Sequence[str], listeners: str, advertised: str = "") -> None:
        if (reason := why_not()) is not None:
            pytest.skip(reason)
        common = [*options, "--store", _database().url(f"nodes_{next(_numbers)}")]
        common += ["--set", f"broker.session.timeout.ms={SESSION_MS}"]
        all_of_them = [[*common, "--set", f"node.id={1 + number}"] for number in range(COUNT)]
        for number, named in enumerate(all_of_them):
            named += ["--listeners", further(listeners, number)] if listeners else []
            named += ["--advertised-listeners", further(advertised, number)] if advertised else []
        super().__init__(folder, options=all_of_them[-1], start_seconds=PATIENCE_S)
        self.has_data = False
        self._others = [
            BrokerProcess(folder / f"other-{number}", options=named, start_seconds=PATIENCE_S)
            for number, named in enumerate(all_of_them[:-1])
        ]
        for one in self._others:
            one.has_data = False

    def start(self) -> "NodeOverPostgresql":
        for one in self._others:
            if not one.starts:
                one.start()
        super().start()
        return self

    def close(self) -> None:
        super().close()
        for one in self._others:
            one.close()

    @property
    def data(self) -> Path:
        pytest.skip("nodes have no data folder")

    @data.setter
    def data(self, folder: Path) -> None:
        """There is none."""


_numbers = itertools.count(1)
_servers: list[PostgresqlServer] = []


def _database() -> PostgresqlServer:
    """One for all that this process runs, each in a schema of its own."""
    if not _servers:
        server = PostgresqlServer()
        atexit.register(server.close)
        asyncio.run(server.start())
        _servers.append(server)
    return _servers[0]
