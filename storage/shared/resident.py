"""What of a log in a shared store is in memory: what was written last, whole, and stretches that readers asked for."""

from collections.abc import Callable, Iterator

from protocol.records.batch import BatchHeader
from protocol.schema import Buffer
from storage.log import LogDamaged, LogSlice
from storage.shared.read_memory import ReadMemory
from storage.stretch import Stretch


class Resident:
    """That of one log."""

    def __init__(self, window: Stretch, begins: int, end_offset: int, memory: ReadMemory) -> None:
        """`window` is all there is from an offset on up to where the log ends, and all of it was committed."""
        self.window = window
        self.begins = begins
        self.durable_offset = end_offset
        """What lies behind stays until it is committed."""
        self._memory = memory
        self._brought: dict[Stretch, int] = {}
        """With the offset for which it was brought, or where it begins: compaction may have taken what is between."""
        self._damaged: dict[int, LogDamaged] = {}
        memory.tail(self, end_offset, window.size_bytes)

    def at(self, offset: int) -> Stretch | None:
        """The batch that holds an offset and those behind it; None where it has to be brought. Raises `LogDamaged`."""
        if offset >= self.begins:
            return self.window
        for stretch, begin in self._brought.items():
            if begin <= offset <= stretch.placed[-1].last_offset:
                self._memory.used(stretch)
                return stretch
        if offset in self._damaged:
            raise self._damaged.pop(offset).with_traceback(None)  # The next reader has it brought anew.
        return None

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        log_end: int,
        *,
        at_least_one: bool,
        ask_for: Callable[[int], object],
    ) -> LogSlice:
        """See `storage.log.Log.read_slice`, as far as it is here. Where nothing is, it is asked for, and may be here at
        once. Raises `LogDamaged`."""
        found, next_offset, left = list[Buffer](), offset, max_bytes
        while next_offset < log_end and not (found and next_offset in self._damaged):
            stretch = self.at(next_offset)
            if stretch is None and not found:
                ask_for(next_offset)
                stretch = self.at(next_offset)
            if stretch is None:
                break
            least = at_least_one and not found
            part = stretch.read(next_offset, left, end_offset=end_offset, at_least_one=least)
            found += part.batches
            left -= sum(map(len, part.batches))
            next_offset = part.next_offset
            if next_offset <= stretch.placed[-1].last_offset:
                break  # What follows has no room, or is not to be seen.
        return LogSlice(found, next_offset)

    def forget_before(self, offset: int) -> None:
        """Something else was committed in the place of what is here: it is to be brought."""
        self.shrink(offset)
        for stretch in [stretch for stretch, begin in self._brought.items() if begin < offset]:
            self.forget(stretch)
            self._memory.gone(stretch)

    def arrived(self, offset: int, stretch: Stretch | LogDamaged) -> None:
        """What lies at an offset has come, or is damaged."""
        if isinstance(stretch, LogDamaged):
            self._damaged[offset] = stretch
        else:
            self._brought[stretch] = min(offset, stretch.placed[0].base_offset)
            self._memory.brought(self, stretch)

    def committed(self, end_offset: int, size_bytes: int) -> None:
        """So much of the window, up to an offset, waits no longer."""
        self.durable_offset = end_offset
        self._memory.committed(self, end_offset, size_bytes)

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, Buffer | None]]:
        """See `storage.log.Log.replay`. Raises `LogDamaged` where it is not in memory."""
        if from_offset < self.begins:
            raise LogDamaged("log", None, from_offset, "what was written down beside it does not fit it")
        return self.window.replay(from_offset)

    # -- read memory -----------------------------------------------------------------------------------------

    def shrink(self, end_offset: int) -> None:
        count = self.window.index_of(min(end_offset, self.durable_offset))
        if count:
            self.begins = self.window.placed[count - 1].last_offset + 1
            self.window.drop_first(count)

    def forget(self, stretch: Stretch) -> None:
        del self._brought[stretch]

    def drop(self, from_offset: int) -> None:
        """The log is closed: nothing is read any more. What was not committed from an offset on never will be."""
        begin = self.window.index_of(from_offset)
        self._memory.pending_bytes -= sum(one.size_bytes for one in self.window.placed[begin:])
        self.window.drop_from(begin)
        for stretch in self._brought:
            self._memory.gone(stretch)
        self._brought = {}
