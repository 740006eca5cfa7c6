"""One client's line to the broker: a connection that is made again when it is lost, and requests with a patience.

A request may be delivered to the broker once more, later, over a connection of its own: what a network does with a
request whose sender gave it up. That is done only where the caller says that it may happen (`again`).
"""

import asyncio
from collections.abc import Callable
from typing import Any

from protocol.framing import request_parts
from tallystick.client.errors import ConnectionLost
from tests.harness.heard import HeardConnection
from tests.simulation.broker_process import PORT
from tests.simulation.clients.twins import HOST, PATIENCE_S, Twins
from tests.simulation.history import Place
from tests.simulation.nodes.router import Part, Router
from tests.simulation.world import World

BESIDE_OTHERS_S = 4.0
"""How long a client waits for one of several nodes, at the longest: another may have its place by then."""
Promised = Callable[[Any], None]
"""Called with the answer to the second of two deliveries."""


class NoAnswer(Exception):
    """The request may or may not have arrived."""


class Session:
    """See the head of this file."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._connection: HeardConnection | None = None
        self._twins = Twins(world)
        self._router = Router(world, name) if world.ports else None
        self._port = PORT
        """Where the last request went."""
        self._seconds: dict[asyncio.Future[Any], tuple[asyncio.Task[Any], Promised]] = {}
        """By the answer to the first delivery."""

    async def begin(
        self,
        request: object,
        version: int,
        *,
        again: float = 0.0,
        repeated: Callable[[bool], None] = lambda sent: None,
        promised: Promised | None = None,
        node: int = 0,
    ) -> "asyncio.Future[Any]":
        """Send; the answer can be awaited with `finish`. Raises `NoAnswer` where there is no connection. `repeated` is
        called with True when the network delivers the request once more, and with False when that is over. With
        `promised` it may be sent twice at once. `node`: to that one, whoever it should go to."""
        self.world.operations += 1
        try:
            if self._router is None:
                connection = await self._connected()
                answer = connection.ask(request, version)
            else:
                parts = [(node, request)] if node else await self._router.parts(request)
                if len(parts) > 1:
                    return await self._joined(self._router, parts, version)
                ((node, request),) = parts
                connection = await self._of_node(self._router, node)
                answer = self._router.watched(node, connection.ask(request, version))
        except (ConnectionLost, OSError) as error:
            raise NoAnswer(str(error)) from error
        if promised is not None and self._twins.draw(connection):
            second = self._twins.ask(connection, answer, request, version, repeated, self._port)
            self._seconds[answer] = self.world.loop.create_task(second), promised
        if again and self.world.random.random() < again:
            self._repeat(request, version, answer, repeated)
        return answer

    async def _of_node(self, router: Router, node: int) -> HeardConnection:
        self._connection, self._port = await router.connection(node), self.world.ports[node]
        return self._connection

    async def _joined(self, router: Router, parts: list[Part], version: int) -> "asyncio.Future[Any]":
        answers = []
        for node, part in parts:
            connection = await self._of_node(router, node)
            answers.append(router.watched(node, connection.ask(part, version)))
        return router.joined(answers)

    def read_near(self, place: Place) -> int:
        """Which node was asked that may read there for the leader; 0: the leader was."""
        return 0 if self._router is None else self._router.asked_near.get(place, 0)

    async def leader(self, place: Place) -> int:
        """The node that leads a partition, as far as is known; 0 where there is but one. Raises `NoAnswer`."""
        try:
            return 0 if self._router is None else await self._router.leader(place)
        except (ConnectionLost, OSError) as error:
            raise NoAnswer(str(error)) from error

    @property
    def is_connected(self) -> bool:
        """Whether what is sent next goes the way of what was sent last."""
        return self._connection is not None and not self._connection.is_lost

    async def _connected(self) -> HeardConnection:
        connection = self._connection
        if connection is None or connection.is_lost:
            connection = await HeardConnection.hear(self.world.history.trace, HOST, PORT, client_id=self.name)
            self._connection = connection
        return connection

    async def tell(self, request: object, version: int) -> None:
        """Send what is not answered. Raises `NoAnswer` where there is no connection."""
        self.world.operations += 1
        try:
            if self._router is None:
                connection = await self._connected()
            else:
                connection = await self._of_node(self._router, (await self._router.parts(request))[0][0])
            connection.tell(request, version)
        except (ConnectionLost, OSError) as error:
            raise NoAnswer(str(error)) from error

    async def finish(self, answer: "asyncio.Future[Any]", patience_s: float = PATIENCE_S) -> Any:
        """The answer, to the second delivery where there is none to the first. Raises `NoAnswer`."""
        task, promised = self._seconds.pop(answer, (None, None))
        if task is None or promised is None:
            return await self._finish(answer, patience_s)
        try:
            found = await self._finish(answer, patience_s)
        except NoAnswer:
            found = None
        second = await task
        if second is not None:
            self.world.hit("client.promised-twice")
            promised(second)
        if found is None and second is None:
            raise NoAnswer("two deliveries, and no answer")
        return second if found is None else found

    async def _finish(self, answer: "asyncio.Future[Any]", patience_s: float) -> Any:
        if self._router is not None:
            patience_s = min(patience_s, BESIDE_OTHERS_S)
        patience = self.world.loop.call_later(patience_s, _give_up, answer)  # `wait_for` costs several times that
        try:
            return await answer
        except TimeoutError as error:
            self.world.hit("client.gave-up")
            self.drop()
            raise NoAnswer("no answer in time") from error
        except (ConnectionLost, OSError) as error:
            raise NoAnswer(str(error)) from error
        finally:
            patience.cancel()

    async def ask(
        self,
        request: object,
        version: int,
        *,
        again: float = 0.0,
        patience_s: float = PATIENCE_S,
        promised: Promised | None = None,
        node: int = 0,
    ) -> Any:
        """Send and wait. Raises `NoAnswer`."""
        return await self.finish(
            await self.begin(request, version, again=again, promised=promised, node=node), patience_s
        )

    async def insist(self, request: object, version: int) -> Any:
        """Send until there is a response, whatever it says. For requests that may be repeated at will."""
        while True:
            try:
                return await self.ask(request, version)
            except NoAnswer:
                await asyncio.sleep(0.02)

    def drop(self) -> None:
        """Give the connection up."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        if self._router is not None:
            self._router.drop()
        self._twins.drop()

    def _repeat(
        self, request: object, version: int, answer: "asyncio.Future[Any]", repeated: Callable[[bool], None]
    ) -> None:
        """Behind the first delivery: what was sent after it must not be overtaken."""
        frame = b"".join(bytes(part) for part in request_parts(request, version, 0, self.name))
        port = self._port
        delay = self.world.random.choice((0.001, 0.02, 0.2, 1.0)) * (0.5 + self.world.random.random())
        loop = self.world.loop
        answer.add_done_callback(
            lambda _: loop.call_later(
                delay, lambda: loop.create_task(self._deliver_again(request, version, frame, repeated, port))
            )
        )

    async def _deliver_again(
        self, request: object, version: int, frame: bytes, repeated: Callable[[bool], None], port: int
    ) -> None:
        try:
            connection = await HeardConnection.hear(self.world.history.trace, HOST, port, client_id="late")
            connection.note(request, version)
            repeated(True)
            connection.send_bytes(frame)
        except (ConnectionLost, OSError):
            return
        self.world.hit("network.delivered-again")
        await asyncio.sleep(1.0)
        repeated(False)
        connection.abort()


def _give_up(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
