"""One other node at one place, for one matter: the connection to it, made when it is wanted.

Rule 1. Whoever wants the connection while it is being made waits for the same one; that a caller is cancelled changes
nothing for the others.
Rule 2. Where it could not be made, or ended without a single answer, the next one is not tried for a while: 50 ms, and
each time twice as long, up to a second. Whoever asks meanwhile is refused at once.
Rule 3. Where it is known for how long the other node believes who this one is (KIP-368), another connection is made
before that is over, and what is under way on the old one is waited for.
"""

import asyncio
from collections.abc import Callable

from broker.config.broker_config import ConfigError
from broker.peers.complaints import Complaints
from broker.peers.connection import PeerConnection
from broker.peers.login import NotLetIn
from broker.peers.port import PeerUnreachable, Place
from broker.peers.way import Way
from broker.process.environment import Environment
from broker.security.tls.errors import BadTls

SETUP_S = 10.0
"""As Kafka's `socket.connection.setup.timeout.ms`: a machine that is gone says nothing."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 50, 1000
"""As Kafka's `reconnect.backoff.ms` and `reconnect.backoff.max.ms`."""
USED_OF_ITS_LIFE = 0.85
"""Of a session that ends; Java's clients authenticate anew then."""

Making = Callable[[str, Callable[[str], None]], PeerConnection]
"""A connection that is not made yet, of the name of the node and what is called when it ends."""


class Peer:
    """See the head of this file. It is `closed` for good."""

    def __init__(
        self,
        node_id: int,
        place: Place,
        way: Way,
        environment: Environment,
        make: Making,
        complaints: Complaints,
    ) -> None:
        self.place = place
        self._name = f"node {node_id} ({place.address})"
        self._complaints = complaints
        self._way = way
        self._environment = environment
        self._make = make
        self._connection: PeerConnection | None = None
        self._used_until_ms: float | None = None
        self._left: set[PeerConnection] = set()
        """Those on which something is under way, and nothing is asked any more."""
        self._connecting: asyncio.Task[PeerConnection | None] | None = None
        self._closed = ""
        """Why, if it is."""
        self._problem = ""
        """What went wrong last."""
        self._pause_ms = 0
        self._not_before_ms = 0

    async def connection(self) -> PeerConnection:
        """One on which something can be asked. Raises `PeerUnreachable`."""
        current = self._connection
        if current is not None and self._has_become_old():
            self._connection = None
            self._left.add(current)
            current.leave()
        elif current is not None:
            if current.is_open:
                return current
            current.end("closes the connection")
        if self._closed:
            raise PeerUnreachable(f"{self._name} {self._closed}")
        if self._connecting is None:
            if self._environment.monotonic_ms() < self._not_before_ms:
                raise PeerUnreachable(f"{self._name} {self._problem}")
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        connecting = self._connecting
        await asyncio.wait((connecting,))
        made = None if connecting.cancelled() else connecting.result()
        if made is None:
            raise PeerUnreachable(f"{self._name} {self._closed or self._problem}")
        return made

    def _has_become_old(self) -> bool:
        return self._used_until_ms is not None and self._environment.monotonic_ms() >= self._used_until_ms

    async def close(self, reason: str) -> None:
        """`reason` is what those who wait are told."""
        self._closed = self._closed or reason
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))
        for connection in (self._connection, *self._left):
            if connection is not None:
                connection.end(self._closed)
                if connection.lost is not None:
                    await connection.lost

    async def _connect(self) -> PeerConnection | None:
        """What is expected to go wrong is not raised: it may be that nobody waits for it any more."""
        connection = self._make(self._name, lambda problem: self._ended(connection, problem))
        try:
            async with asyncio.timeout(SETUP_S):
                await self._open(connection)
        except TimeoutError:
            connection.end(f"did not take a connection in {SETUP_S:g} s")
        except (BadTls, ConfigError) as problem:
            connection.end(f"cannot be connected to as settings are: {problem}")
        except NotLetIn as problem:
            connection.end(str(problem))
        except PeerUnreachable:
            pass  # it has ended, and has said why
        except (OSError, UnicodeError) as problem:  # a name that is none raises the latter
            connection.end(f"cannot be connected to: {problem}")
        else:
            self._connection = connection
        finally:
            self._connecting = None
            if self._connection is not connection:
                connection.end("was given up")
        return self._connection

    async def _open(self, connection: PeerConnection) -> None:
        context = await self._way.context()
        address = self.place.address
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, address.host, address.port, ssl=context)
        began_ms = self._environment.monotonic_ms()
        lasts_ms = await self._way.greet(connection)
        self._used_until_ms = began_ms + USED_OF_ITS_LIFE * lasts_ms if lasts_ms > 0 else None
        connection.has_answered = False

    def _ended(self, connection: PeerConnection, problem: str) -> None:
        was_in_use = self._connection is connection
        if was_in_use:
            self._connection = None
        if connection in self._left:
            self._left.discard(connection)
            return
        if self._closed:
            return
        self._problem = problem
        if connection.has_answered and was_in_use:
            self._pause_ms = 0
            self._complaints.ended(problem)
            return
        self._complaints.failed(problem)
        self._pause_ms = min(max(FIRST_PAUSE_MS, 2 * self._pause_ms), LONGEST_PAUSE_MS)
        self._not_before_ms = self._environment.monotonic_ms() + self._pause_ms
