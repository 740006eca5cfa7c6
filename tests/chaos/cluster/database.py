"""PostgreSQL with a synchronous standby, in two places: when the one ends, the other is the primary, and a new standby
comes into the place that is free. In a network each place has an address, and what ends there does so in silence."""

import asyncio
import random
import signal
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from tallystick.postgresql_process import PostgresqlProcess
from tests.chaos.cluster.namespaces import DATABASES, Network
from tests.harness.proxy import CuttingProxy, free_port
from tests.shared_store.postgresql_server import PostgresqlServer

T = TypeVar("T")

PLACES = (0, 1)
SCHEMA = "chaos"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Database:
    """See the head of this file; `close` it."""

    def __init__(self, network: Network | None = None) -> None:
        self._addresses = ["", ""] if network is None else [network.address(number) for number in DATABASES]
        self._ports = [free_port() for _ in PLACES]
        self._to_places = [] if network is None else [network.way(number) for number in DATABASES]
        primary = PostgresqlServer(PostgresqlProcess(port=self._ports[0], also_at=self._addresses[0]))
        self._in: list[PostgresqlServer | None] = [primary, None]
        self._first = 0
        try:
            run(primary.start())
            self._in[1] = self._standby(1)
        except BaseException:
            self.close()
            raise

    @property
    def primary(self) -> PostgresqlServer:
        found = self._in[self._first]
        assert found is not None
        return found

    def _standby(self, place: int) -> PostgresqlServer:
        return run(self.primary.follow_with(port=self._ports[place], also_at=self._addresses[place]))

    @property
    def hosts(self) -> list[str]:
        """Of each place, in the network."""
        return [f"{address}:{port}" for address, port in zip(self._addresses, self._ports, strict=True)]

    def ways(self) -> list[CuttingProxy]:
        """A link to each of the two places, for one who uses them; he stops them."""
        return [CuttingProxy(free_port(), partial(self._behind, place)).start() for place in PLACES]

    def _behind(self, place: int) -> int:
        found = self._in[place]
        if found is None:
            raise OSError("there is no server now")
        return found.port

    @staticmethod
    def url(hosts: list[str]) -> str:
        return f"postgresql://postgres@{','.join(hosts)}/postgres?schema={SCHEMA}"

    # -- what may happen to it ---------------------------------------------------------------------------------

    def end_some_connections(self, draw: random.Random) -> None:
        """Each with the same probability."""
        query = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = 'tallystick' AND abs(hashint4(pid + $1)) % 2 = 0"
        )
        run(self.primary.sql(query, draw.randrange(1000)))

    def stand_still(self, seconds: float) -> None:
        self.primary.pause()
        try:
            time.sleep(seconds)
        finally:
            self.primary.resume()

    def crash(self) -> None:
        """As after a loss of power: it recovers, and goes on."""
        run(self.primary.restart())

    def fail_over(self, wait_s: float, dark_s: float = 0.0) -> None:
        """Its machine is gone; after a while the standby is promoted, and gets a standby of its own. In a network this
        one is reached after `dark_s`."""
        lost, place = self.primary, self._first
        self._in[place] = None
        for way in self._to_places[place : place + 1]:
            way.shut()
        lost.stop(signal.SIGKILL)
        lost.close()
        time.sleep(wait_s)
        self._first = 1 - place
        run(self.primary.promote())
        self._in[place] = self._standby(place)
        for way in self._to_places[place : place + 1]:
            time.sleep(dark_s)
            way.mend()

    def close(self) -> None:
        for one in self._in:
            if one is not None:
                one.close()
