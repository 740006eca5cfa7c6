"""PostgreSQL with a synchronous standby, in two places: when the one ends, the other is the primary, and a new standby
comes into the place that is free."""

import asyncio
import random
import signal
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from tests.harness.proxy import CuttingProxy, free_port
from tests.shared_store.postgresql_server import PostgresqlServer

T = TypeVar("T")

PLACES = (0, 1)
SCHEMA = "chaos"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Database:
    """See the head of this file; `close` it."""

    def __init__(self) -> None:
        primary = PostgresqlServer()
        self._in: list[PostgresqlServer | None] = [primary, None]
        self._first = 0
        try:
            run(primary.start())
            self._in[1] = run(primary.follow_with())
        except BaseException:
            self.close()
            raise

    @property
    def primary(self) -> PostgresqlServer:
        found = self._in[self._first]
        assert found is not None
        return found

    def ways(self) -> list[CuttingProxy]:
        """A link to each of the two places, for one who uses them; he stops them."""
        return [CuttingProxy(free_port(), partial(self._behind, place)).start() for place in PLACES]

    def _behind(self, place: int) -> int:
        found = self._in[place]
        if found is None:
            raise OSError("there is no server now")
        return found.port

    @staticmethod
    def url(ways: list[CuttingProxy]) -> str:
        hosts = ",".join(f"127.0.0.1:{way.port}" for way in ways)
        return f"postgresql://postgres@{hosts}/postgres?schema={SCHEMA}"

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

    def fail_over(self, wait_s: float) -> None:
        """Its machine is gone; after a while the standby is promoted, and gets a standby of its own."""
        lost, place = self.primary, self._first
        self._in[place] = None
        lost.stop(signal.SIGKILL)
        lost.close()
        time.sleep(wait_s)
        self._first = 1 - place
        run(self.primary.promote())
        self._in[place] = run(self.primary.follow_with())

    def close(self) -> None:
        for one in self._in:
            if one is not None:
                one.close()
