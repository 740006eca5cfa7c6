"""A connection that writes down what was sent and answered over it, for `tests.opinion`."""

import asyncio
import itertools

from tallystick.client.connection import Connection
from tests.opinion.trace import Exchange, Trace

_numbers = itertools.count(1)


class HeardConnection(Connection):
    """See the head of this file. Make one with `hear`."""

    def __init__(self, client_id: str | None) -> None:
        super().__init__(client_id)
        self.trace = Trace()
        self._name = f"{client_id}#{next(_numbers)}"
        self._exchanges: dict[int, Exchange] = {}

    @classmethod
    async def hear(cls, trace: Trace, host: str, port: int, *, client_id: str | None) -> "HeardConnection":
        """Open a connection; versions are not negotiated."""
        loop = asyncio.get_running_loop()
        _transport, connection = await loop.create_connection(lambda: cls(client_id), host, port)
        connection.trace = trace
        return connection

    def note(self, request: object, version: int) -> Exchange:
        """Write down a request that was sent."""
        return self.trace.send(self._name, request, version)

    def _send(self, request: object, version: int) -> int:
        correlation_id = super()._send(request, version)
        self._exchanges[correlation_id] = self.note(request, version)
        return correlation_id

    def _answer(self, frame: bytes) -> None:
        waiting = self._waiting[0] if self._waiting else None
        super()._answer(frame)
        if waiting is None:
            return
        exchange = self._exchanges.pop(waiting.correlation_id)
        if waiting.answer.done() and not waiting.answer.cancelled() and waiting.answer.exception() is None:
            self.trace.receive(exchange, waiting.answer.result())
