"""Times some of the requests, in a broker that is watched.

To time each of them would cost the smallest a tenth of what they take: reading the clock is not free. So the first of
each eighth of a second are timed, all of them where they are few. The stages are those of
`broker.api.metering.request_meter`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker.api.context import ConnectionInfo
from broker.api.dispatch import Call, Decoded, Dispatcher, Encoded
from broker.api.metering.request_meter import ApiMeter
from broker.network.pending_answer import AnswersInOrder
from protocol.schema import Buffer

BURST = 8
REST_S = 1 / 8
LOOK_AGAIN_S = 0.001
"""At an answer that is known and stands behind others."""


class Host(Protocol):
    """The server, as far as this is concerned."""

    timer: "RequestTimer | None"
    """Told of what arrives, while it is there."""

    def time_requests(self, timer: "RequestTimer | None") -> None:
        """Read requests through it, or no more."""


class RequestTimer:
    """See the head of this file. `clock` gives nanoseconds and never goes back."""

    def __init__(self, host: Host, clock: Callable[[], int]) -> None:
        self.clock = clock
        self._host = host
        self._left = 0
        self._chosen: dict[int, tuple[int, AnswersInOrder]] = {}
        """Frames that are to be timed, by their identity: when they were here, and what is owed on their connection."""

    def begin(self) -> None:
        """Time the next few."""
        self._left = BURST
        self._host.timer = self

    def arrived(self, frames: Sequence[Buffer], order: AnswersInOrder) -> None:
        """Something came on a connection, and these wait; the last of them is chosen."""
        if not frames:
            return
        if len(self._chosen) >= BURST:
            self._chosen.clear()  # their connections were lost before they were read
        self._chosen[id(frames[-1])] = self.clock(), order
        self._host.time_requests(self)
        self._left -= 1
        if self._left <= 0:
            self._host.timer = None
            asyncio.get_running_loop().call_later(REST_S, self.begin)

    def was_read(self, frame: Buffer, call: Call) -> None:
        """A frame that may have been chosen was decoded."""
        chosen = self._chosen.pop(id(frame), None)
        if chosen is not None and call.entry.meter is not None and call.undecoded is None:
            call.timing = Timing(self.clock, call, call.entry.meter, *chosen)
        if not self._chosen:
            self._host.time_requests(None)


class Timing:
    """One request on its way."""

    __slots__ = ("_answered_ns", "_arrived_ns", "_began_ns", "_call", "_clock", "_left_ns", "_meter", "_order")

    def __init__(
        self, clock: Callable[[], int], call: Call, meter: ApiMeter, arrived_ns: int, order: AnswersInOrder
    ) -> None:
        self._clock = clock
        self._call = call
        self._meter = meter
        self._order = order
        self._arrived_ns = arrived_ns
        self._began_ns = clock()
        self._left_ns = self._answered_ns = 0

    def waits(self) -> None:
        """It was not answered at once."""
        self._left_ns = self._clock()

    def answered(self) -> None:
        """Its answer is known; it leaves in this turn of the loop, or behind others."""
        if not self._answered_ns:
            self._answered_ns = self._clock()
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        if any(one.call is self._call for one in self._order.waiting):
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look)
            return
        meter, now, left_ns = self._meter, self._clock(), self._left_ns
        meter.queue.add(self._began_ns - self._arrived_ns)
        meter.local.add((left_ns or self._answered_ns) - self._began_ns)
        meter.remote.add(self._answered_ns - left_ns if left_ns else 0)
        meter.send.add(now - self._answered_ns)
        meter.total.add(now - self._arrived_ns)


class TimingDispatcher(Dispatcher):
    """Another dispatcher, while some of what it reads is to be timed."""

    def __init__(self, inner: Dispatcher, timer: RequestTimer) -> None:
        self._inner = inner
        self._timer = timer

    def read(self, connection: ConnectionInfo, frame: Buffer) -> Call:
        """As the other one; it is timed from here."""
        call = self._inner.read(connection, frame)
        self._timer.was_read(frame, call)
        return call

    def run(self, call: Call) -> Any:
        """As the other one."""
        return self._inner.run(call)

    async def decode(self, call: Call) -> Decoded:
        return await self._inner.decode(call)

    async def encode(self, call: Call, response: Any) -> Encoded:
        return await self._inner.encode(call, response)
