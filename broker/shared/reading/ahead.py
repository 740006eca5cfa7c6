"""Reading ahead: what a reader that is far behind will ask for next is brought before it does.

Rule 1. Only for who reads on: it has asked for what begins where that ends which was brought for it before. Nothing is
        brought of what is in memory, as it is for readers at the tail, nor of what is not committed.
Rule 2. What is ahead is held under a limit of its own, and counts from before the store is asked until the log takes it
        over, which holds it from then on as what was brought for a reader. It goes where nobody reads on, where the log
        is another node's, or gone, and where so much waits to be committed that writers are sent back.
Rule 3. Whoever asks for what is on its way waits for the same. Nobody is told what goes wrong ahead: what is damaged or
        cannot be had is dropped, and who asks for it has it brought anew.
Rule 4. Who waits goes first: what is ahead takes a few of the ways to the store that readers have, and those leave some
        to whoever opens a log (`SharedStore.read`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import takewhile
from typing import Any

from broker.shared.reading.stretches import RUNS_AT_ONCE, Turns, first_stretch, known_of, stretch_in
from storage.log import LogDamaged
from storage.shared.read_memory import ReadMemory
from storage.shared.shared_log import SharedLog
from storage.shared.store import ObjectMissing, SharedStore, StoredRun, StoreRefused, StoreUnreachable
from storage.stretch import STRETCH_BYTES, Stretch

Own = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

DEEPEST = 4
"""Stretches that are ahead of a reader; it begins with one, and has twice as many with each that it asks for."""
IDLE_S = 10.0
"""How long they wait for it."""
AT_ONCE, AT_ONCE_APART = 2, 8
"""How many of all readers are on their way, where the database has their bytes, and where a bucket does."""
PLACES = 8
"""Where a log is read at the same time, as far as that is known."""

_FAILURES = (StoreUnreachable, StoreRefused, ObjectMissing, LogDamaged)


class ReadingAhead:
    """That of one node."""

    def __init__(self, store: SharedStore, memory: ReadMemory, limit_bytes: int, own: Own, turns: Turns) -> None:
        self.store = store
        self.own = own
        self.turns = turns
        self.ways = asyncio.Semaphore(AT_ONCE_APART if store.keeps_apart else AT_ONCE)
        self.limit_bytes = limit_bytes
        self.stretch_bytes = STRETCH_BYTES
        """What is brought for a reader at a time."""
        self._memory = memory
        self._readers: dict[_Reader, float] = {}
        """Those who read on, and when they have asked last, in this order."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held_bytes(self) -> int:
        """What is ahead of all readers."""
        return self._memory.ahead_bytes

    @property
    def share(self) -> int:
        """How many stretches may be ahead of each reader."""
        return max(1, self.limit_bytes // self.stretch_bytes // max(1, len(self._readers)))

    def is_possible(self) -> bool:
        """Whether there is memory for it. Where writers are sent back, it is wanted for what they bring."""
        if self._memory.is_full:
            for one in list(self._readers):
                one.stop()
            return False
        return self.limit_bytes > 0

    def reserve(self, size_bytes: int) -> bool:
        """Whether so much more may be held; it counts from now on."""
        if self.held_bytes + size_bytes > self.limit_bytes:
            return False
        self._memory.ahead_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """So much is held no longer."""
        self._memory.ahead_bytes -= size_bytes

    def reads_on(self, reader: "_Reader") -> None:
        """It has asked just now."""
        loop = asyncio.get_running_loop()
        self._readers.pop(reader, None)
        self._readers[reader] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(IDLE_S, self._look)

    def stopped(self, reader: "_Reader") -> None:
        """Nothing is ahead of it."""
        self._readers.pop(reader, None)
        if not self._readers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Who has gone?"""
        loop = asyncio.get_running_loop()
        self._timer = None
        for reader, asked_s in list(self._readers.items()):
            if (left_s := asked_s + IDLE_S - loop.time()) > 0:
                self._timer = loop.call_later(left_s, self._look)
                return
            reader.stop()


class AheadOfLog:
    """That of one log."""

    def __init__(self, node: ReadingAhead, log: SharedLog) -> None:
        self._node = node
        self._log = log
        self._readers: list[_Reader] = []
        """Who has asked last stands last."""

    def take(self, offset: int) -> Stretch | None:
        """What was read ahead at an offset, which is its caller's from now on."""
        for reader in self._readers:
            if (stretch := reader.take(offset)) is not None:
                self._was_asked(reader)
                return stretch
        return None

    def coming(self, offset: int) -> "asyncio.Future[None] | None":
        """Over when what is on its way at an offset has come, or does not come. None where nothing is."""
        for reader in self._readers:
            if (over := reader.coming(offset)) is not None:
                return over
        return None

    def brought(self, offset: int, end_offset: int, rest: Sequence[StoredRun]) -> None:
        """What lies between these offsets was brought because somebody has asked for it; these runs follow."""
        if not self._node.is_possible():
            return
        reader = next((one for one in self._readers if one.position == offset), None)
        if reader is not None:
            reader.given(offset, end_offset, rest)
        else:
            reader = next((one for one in self._readers if one.begins <= offset < one.position), None)
        if reader is None:
            reader = _Reader(self._node, self._log, offset, end_offset)
            self._readers.append(reader)
        self._was_asked(reader)

    def _was_asked(self, reader: "_Reader") -> None:
        self._readers.remove(reader)
        self._readers.append(reader)
        if len(self._readers) > PLACES:
            self._readers.pop(0).stop()

    def forget_before(self, offset: int) -> None:
        """What lies there was written anew."""
        for reader in self._readers:
            if reader.begins < offset:
                reader.stop()

    def close(self) -> None:
        """Nobody reads any more."""
        for reader in self._readers:
            reader.stop()
        self._readers.clear()


class _Reader:
    """One that reads a log in order, or several, one behind the other."""

    def __init__(self, node: ReadingAhead, log: SharedLog, begins: int, position: int) -> None:
        self._node = node
        self._log = log
        self.begins, self.position = begins, position
        """It was given what lies between these two last."""
        self._depth = 0
        self._ahead: list[_Piece] = []
        self._known: Sequence[StoredRun] = ()
        """Runs that lie behind those, as they were a moment ago."""
        self._planning: asyncio.Task[None] | None = None

    def take(self, offset: int) -> Stretch | None:
        """See `AheadOfLog.take`. What lies before is not wanted any more."""
        number = self._number_of(offset)
        if number is None or (stretch := self._ahead[number].stretch) is None:
            return None
        taken = self._ahead[number]
        self._drop(0, number + 1)
        self._go_on(taken.begins, taken.ends)
        return stretch

    def coming(self, offset: int) -> "asyncio.Future[None] | None":
        """See `AheadOfLog.coming`. What has not begun to come is not waited for: who asks goes first."""
        number = self._number_of(offset)
        if number is None:
            return None
        if self._ahead[number].has_begun:
            return self._ahead[number].over
        self._drop(number)
        return None

    def _number_of(self, offset: int) -> int | None:
        return next((number for number, one in enumerate(self._ahead) if one.begins <= offset < one.ends), None)

    def given(self, begins: int, ends: int, rest: Sequence[StoredRun]) -> None:
        """It has asked where it was to go on; these runs follow."""
        self._drop(0)  # What has not begun to come, or begins somewhere else.
        self._known = rest
        self._go_on(begins, ends)

    def stop(self) -> None:
        """Hold nothing. Where it goes on all the same, it begins anew."""
        self._depth = 0
        self._drop(0)
        if self._planning is not None:
            self._planning.cancel()
            self._planning = None
        self._node.stopped(self)

    def _drop(self, begin: int, end: int | None = None) -> None:
        for piece in self._ahead[begin:end]:
            piece.drop()
        del self._ahead[begin:end]
        if end is None:
            self._known = ()

    def _go_on(self, begins: int, ends: int) -> None:
        self.begins, self.position = begins, ends
        self._depth = min(DEEPEST, max(1, 2 * self._depth))
        self._node.reads_on(self)
        self._bring_known()
        if self._has_room() and not self._known and self._planning is None:
            self._planning = self._node.own(self._plan())

    def _has_room(self) -> bool:
        return self._node.is_possible() and len(self._ahead) < min(self._depth, self._node.share)

    @property
    def _ends(self) -> int:
        """Where the next piece begins."""
        return self._ahead[-1].ends if self._ahead else self.position

    async def _plan(self) -> None:
        """Find out what follows."""
        offset = self._ends
        try:
            async with self._node.ways:
                known = await self._node.store.runs(self._log.owned.log_id, offset, RUNS_AT_ONCE)
        except _FAILURES:
            known = []
        self._planning = None
        if offset == self._ends:
            self._known = known
            self._bring_known()

    def _bring_known(self) -> None:
        """As far as there is room, and memory."""
        while self._known and self._has_room():
            wanted = first_stretch(takewhile(self._is_away, self._known), self._ends, self._node.stretch_bytes)
            if not wanted:
                self._known = ()
                return
            size_bytes = sum(one.run.size_bytes for one in wanted)
            if not self._node.reserve(size_bytes):
                return
            self._known = self._known[len(wanted) :]
            piece = _Piece(self._node, self._ends, wanted[-1].run.last_offset + 1, size_bytes)
            self._ahead.append(piece)
            self._node.own(self._bring(piece, wanted))

    def _is_away(self, one: StoredRun) -> bool:
        """Rule 1."""
        log = self._log
        return one.run.base_offset < log.in_memory_from and one.run.last_offset < log.durable_offset

    async def _bring(self, piece: "_Piece", wanted: Sequence[StoredRun]) -> None:
        stretch: Stretch | None = None
        try:
            async with self._node.ways:
                if piece.begin():
                    store, name, known = self._node.store, self._log.name, known_of(self._log)
                    found = await stretch_in(store, wanted, piece.begins, name, known, turns=self._node.turns)
                    stretch = found if found.placed[-1].last_offset + 1 == piece.ends else None
        except _FAILURES:
            pass  # Rule 3
        finally:
            piece.end(stretch)
            if stretch is None and piece in self._ahead:
                self._drop(self._ahead.index(piece))


class _Piece:
    """A stretch that is ahead, or on its way. Its bytes are reserved when it is made."""

    def __init__(self, node: ReadingAhead, begins: int, ends: int, size_bytes: int) -> None:
        self._node = node
        self.begins, self.ends = begins, ends
        self._size_bytes = size_bytes
        self.stretch: Stretch | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.has_begun = False
        self._is_dropped = False

    def begin(self) -> bool:
        """Whether it is wanted still."""
        self.has_begun = not self._is_dropped
        return self.has_begun

    def end(self, stretch: Stretch | None) -> None:
        """It has come, or does not come. What was dropped meanwhile is freed now."""
        if not self.over.done():
            self.over.set_result(None)
        if not self._is_dropped:
            self.stretch = stretch
        elif self.has_begun:
            self._node.release(self._size_bytes)

    def drop(self) -> None:
        """It is not wanted, or is somebody else's."""
        self._is_dropped, self.stretch = True, None
        if not self.has_begun or self.over.done():
            self._node.release(self._size_bytes)
