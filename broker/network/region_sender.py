"""Sends answers of which parts lie in files: what is in memory through the transport, the rest by `sendfile`.

Transport and sender write to the same socket, so each begins only when the other has nothing left: before a region the
transport reports when its buffer is empty (a high-water mark of 0), and the connection hands it nothing while
`active`.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from broker.disk.file_region import FileRegion

BYTES_A_TURN = 4 << 20
"""Then others have their turn."""


def holds_region(parts: Iterable[Any]) -> bool:
    return any(type(part) is FileRegion for part in parts)


class RegionSender:
    """Of one connection. `finished` is called when it has to be waited for until everything has left or is with the
    transport; `failed` with the reason when the answer cannot be completed: its frame is torn and the connection of no
    use. `high_water`: the transport's usual mark, in bytes."""

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        high_water: int,
        finished: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._high_water = high_water
        self._finished = finished
        self._failed = failed
        self._parts: deque[Any] = deque()
        self._descriptor = -1
        self._polling = False

    @property
    def active(self) -> bool:
        return bool(self._parts)

    @property
    def memory_bytes(self) -> int:
        """How much of what is to be sent lies in memory and not in files."""
        return sum(len(part) for part in self._parts if type(part) is not FileRegion)

    def send(self, parts: Iterable[Any]) -> None:
        """Everything in order, behind what is being sent already."""
        begun = self.active
        self._parts.extend(parts)
        if not begun:
            self._transport.set_write_buffer_limits(high=0)
            self._send()

    def go_on(self) -> None:
        """The socket takes more, or the transport has written all it had."""
        if self._parts and self._send():
            self._finished()

    def _send(self) -> bool:
        """Send what the socket takes; whether that was everything."""
        left = BYTES_A_TURN
        while self._parts:
            if type(self._parts[0]) is not FileRegion:
                self._hand_to_transport()
            elif self._transport.is_closing() or self._transport.get_write_buffer_size():
                self._poll(False)  # it is the transport's turn
                return False
            else:
                requested = min(left, len(self._parts[0]))
                sent = self._send_region(requested)
                if sent is None:
                    return False
                left -= sent
                if self._parts and (sent < requested or not left):
                    self._poll(True)
                    return False
        self._poll(False)
        self._transport.set_write_buffer_limits(high=self._high_water)
        return True

    def drop(self) -> None:
        """The connection is gone."""
        self._poll(False)
        for part in self._parts:
            if type(part) is FileRegion:
                part.close()
        self._parts.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _hand_to_transport(self) -> None:
        together = []
        while self._parts and type(self._parts[0]) is not FileRegion:
            together.append(self._parts.popleft())
        self._transport.writelines(together)

    def _send_region(self, most: int) -> int | None:
        """How much of the first part was sent. None: it failed, which is reported, and nothing is left."""
        region: FileRegion = self._parts[0]
        try:
            sent = region.send_to(self._socket(), most)
        except BlockingIOError:
            return 0
        except OSError as error:
            self.drop()
            self._failed(str(error))
            return None
        if not len(region):
            region.close()
            self._parts.popleft()
        return sent

    def _socket(self) -> int:
        """A duplicate: a loop does not let anybody else wait for a descriptor that belongs to a transport."""
        if self._descriptor < 0:
            self._descriptor = os.dup(self._transport.get_extra_info("socket").fileno())
        return self._descriptor

    def _poll(self, wanted: bool) -> None:
        if wanted != self._polling:
            self._polling = wanted
            loop = asyncio.get_running_loop()
            if wanted:
                loop.add_writer(self._socket(), self.go_on)
            else:
                loop.remove_writer(self._descriptor)
