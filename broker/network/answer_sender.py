"""The sending half of a connection: answers leave in order, and what the client does not take is counted.

Rule. An answer leaves when it is there, or with others that are small; never later than at the end of its connection's
turn. While more than `bound_bytes` of them wait to be taken (`blocked`), no further request of that client is worked
on: it makes us hold that much and one answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.network.region_sender import RegionSender, holds_region
from broker.process.memory_budget import AnswerBudget, Holder
from protocol.schema import Buffer

FLUSH_BYTES: Final = 64 << 10


class AnswerSender:
    """Of one connection. `finished` is called when more answers may be sent after a wait. The owner is closed when one
    cannot be sent to its end."""

    __slots__ = (
        "_bound_bytes", "_budget", "_counted", "_finished", "_out_bytes", "_owner", "_paused",
        "_regions", "_transport", "blocked", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        transport: asyncio.Transport,
        budget: AnswerBudget,
        owner: Holder,
        bound_bytes: int,
        *,
        finished: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._budget = budget
        self._owner = owner
        self._bound_bytes = bound_bytes
        self._finished = finished
        self.waiting: list[Buffer] = []
        """Answers to be flushed."""
        self._out_bytes = 0
        self._regions: RegionSender | None = None
        self._paused = False
        self._counted = False
        self.blocked = False
        """Whether the client has yet to take what it was sent."""
        transport.set_write_buffer_limits(high=bound_bytes)

    def add(self, parts: list[Buffer]) -> None:
        """Small answers leave together; one with records at once, so that only one is held."""
        self.waiting += parts
        if len(parts) == 1:
            self._out_bytes += len(parts[0])
            if self._out_bytes < FLUSH_BYTES:
                return
        self.flush()

    def flush(self) -> None:
        out, self.waiting, self._out_bytes = self.waiting, [], 0
        transport = self._transport
        if transport.is_closing():
            return
        late = self._counted or transport.get_write_buffer_size() > 0
        if self._regions is not None and (self._regions.active or holds_region(out)):
            self._send_regions(self._regions, out)
        elif len(out) > 1 and holds_region(out):
            self._regions = RegionSender(
                transport, high_water=self._bound_bytes, finished=self._regions_sent, failed=self._owner.expire
            )
            self._send_regions(self._regions, out)
        else:
            transport.writelines(out)
        if late:
            self.count()

    def pause(self) -> None:
        """The transport holds more than its bound."""
        self._paused = self.blocked = True
        self.count()

    def resume(self) -> None:
        """The transport takes more."""
        self._paused = False
        if self._regions is not None:
            self._regions.go_on()
        self._look()
        if self._counted:
            self.count()

    def count(self) -> None:
        """Say how much the client has yet to take."""
        unsent = self._transport.get_write_buffer_size()
        if self._regions is not None:
            unsent += self._regions.memory_bytes
        if unsent or self._counted:
            self._counted = unsent > 0
            self._budget.count(self._owner, unsent)

    def drop(self) -> None:
        """The connection is gone."""
        self._budget.leave(self._owner)
        self.waiting = []
        if self._regions is not None:
            self._regions.drop()

    def _send_regions(self, regions: RegionSender, out: list[Buffer]) -> None:
        regions.send(out)
        self._look()
        if regions.active:
            self.count()

    def _regions_sent(self) -> None:
        self._look()
        self.count()
        self._finished()

    def _look(self) -> None:
        self.blocked = self._paused or (self._regions is not None and self._regions.active)
