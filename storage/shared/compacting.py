"""Compaction of a log in a shared store, and fewer runs for what has many.

The parts that a pass is about are brought into memory, and become a log of their own there, which is compacted as one
on a disk is (`storage.cleaner`). What came of it takes the place of their runs, with the next commits. A part whose
runs are many and small, as they are where a little was appended often, is written anew in few of them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from storage.cleaner.cleaning import Work
from storage.cleaner.compaction import Plan, compact, plan
from storage.cleaner.compactor import CHECKPOINT, Compactor, Derived
from storage.log import LATEST_MS, LogClosed, LogConfig
from storage.producers.aborted import WrittenIndex
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment_format import LOG, file_name
from storage.shared.kept_files import KeptFiles
from storage.shared.lookup import brought
from storage.shared.parts import PART_BYTES, Part
from storage.shared.replacement import Replacement, runs_of
from storage.steps import NoLongerTrue, Spent, Steps, finish, never
from storage.stretch import Stretch, stretch_of

if TYPE_CHECKING:
    from storage.shared.shared_log import SharedLog

SCRATCH = "scratch"
MOST_BYTES = 128 << 20
"""What a pass brings into memory: a log that is larger when it is compacted is not compacted behind that."""
MANY_RUNS = 16
"""Beyond one for each MiB."""


@dataclass(frozen=True, slots=True)
class SharedPlan(Plan):
    """What a pass works on: the first parts of a log; or one that has many runs."""

    parts: tuple[Part, ...] = ()
    only_runs: bool = False

    @property
    def start_offset(self) -> int:
        return self.parts[0].base_offset


class SharedCompactor(Compactor):
    """See `storage.cleaner.compactor.Compactor`."""

    def __init__(self, log: "SharedLog", derived: Derived, *, report: Callable[[str], None]) -> None:
        self._shared = log
        self._begin(log.name, derived, report)
        self.first_dirty_offset = min(log.beside.number(CHECKPOINT), log.end_offset)

    def due(self, last_stable_offset: int, now_ms: int, spent: Spent) -> Steps[Plan | None]:
        """What a pass would work on now."""
        yield from ()
        log = self._shared
        if self._running or log.failed:
            return None
        config, active = log.config, log.parts[-1]
        if config.cleanup_compact and 0 <= active.first_ms < now_ms - config.max_compaction_lag_ms:
            log.roll()
        final = self._final(min(last_stable_offset, log.durable_offset))
        if config.cleanup_compact and (found := self._dirty(final, now_ms)) is not None:
            return found
        for part, end_offset in final:
            if part.runs > MANY_RUNS + (part.size_bytes >> 20):
                return SharedPlan((), (end_offset,), self.first_dirty_offset, (part,), only_runs=True)
        return None

    def _final(self, limit: int) -> list[tuple[Part, int]]:
        """Parts that are over, with their ends, as far as they lie below an offset."""
        parts = self._shared.parts
        ends = [following.base_offset for following in parts[1:]]
        return [(part, end) for part, end in zip(parts, ends, strict=False) if end <= limit]

    def _dirty(self, final: Sequence[tuple[Part, int]], now_ms: int) -> SharedPlan | None:
        config = self._shared.config
        too_new_ms = now_ms - config.min_compaction_lag_ms if config.min_compaction_lag_ms > 0 else LATEST_MS
        chosen, ends = list[Part](), list[int]()
        clean_bytes = dirty_bytes = 0
        overdue = False
        for part, end in final:
            is_dirty = end > self.first_dirty_offset
            too_much = clean_bytes + dirty_bytes + part.size_bytes > MOST_BYTES
            if too_much or (is_dirty and part.newest_ms > too_new_ms):
                break
            chosen.append(part)
            ends.append(end)
            if is_dirty:
                dirty_bytes += part.size_bytes
                overdue = overdue or now_ms - part.first_ms > config.max_compaction_lag_ms
            else:
                clean_bytes += part.size_bytes
        enough = dirty_bytes >= config.min_cleanable_dirty_ratio * (clean_bytes + dirty_bytes)
        if not dirty_bytes or not (enough or overdue):
            return None
        return SharedPlan((), tuple(ends), self.first_dirty_offset, tuple(chosen))

    def run(self, planned: Plan, now_ms: int, spent: Spent = never) -> Steps[None]:
        """One pass. Raises `LogDamaged`; never because the store cannot be asked, the log is abandoned, or parts leave
        meanwhile."""
        assert isinstance(planned, SharedPlan), "this log has no segments"
        self._running, self._work = True, Work(spent)
        try:
            if planned.only_runs:
                stretch = yield from self._batches_of(planned.parts[0].base_offset, planned.end_offset)
                yield self._put(planned.parts, planned.end_offset, stretch, None, is_last=False)
            else:
                yield from self._compact(planned, now_ms, spent)
        except (LogClosed, NoLongerTrue, OSError):
            return  # The next pass begins anew.
        finally:
            self._running = False

    def _compact(self, planned: SharedPlan, now_ms: int, spent: Spent) -> Steps[None]:
        log, files = self._shared, KeptFiles()
        for part, end in zip(planned.parts, planned.ends, strict=True):
            stretch = yield from self._batches_of(part.base_offset, end)
            files.write_whole(f"{SCRATCH}/{file_name(part.base_offset, LOG)}", *stretch.batches)
        scratch = yield from _scratch_log(files, log.config, now_ms)
        scratch.roll(planned.end_offset)
        on_scratch = yield from plan(
            scratch,
            first_dirty_offset=self.first_dirty_offset,
            last_stable_offset=planned.end_offset,
            now_ms=now_ms,
            spent=spent,
        )
        if on_scratch is None:
            return
        swapped: list[tuple[Sequence[int], WrittenIndex]] = []

        def after_swap(bases: Sequence[int], index: WrittenIndex) -> Steps[None]:
            swapped.append((bases, index))
            yield from ()

        done = yield from compact(
            scratch,
            on_scratch,
            aborted=(yield from self._aborted(planned, spent)),
            last_batch_of=self._last_batch_of,
            now_ms=now_ms,
            work=self._work,
            before_swap=lambda: self._derived.compaction_begins(planned.end_offset),
            after_swap=after_swap,
        )
        self._tell(done)
        self.first_dirty_offset = max(self.first_dirty_offset, done.first_dirty_offset)
        numbers = {part.base_offset: number for number, part in enumerate(planned.parts)}
        for bases, index in swapped:
            first, last = numbers[bases[0]], numbers[bases[-1]]
            stretch = yield from _content_of(files, bases[0])
            is_last = bases is swapped[-1][0]
            yield self._put(planned.parts[first : last + 1], planned.ends[last], stretch, index, is_last=is_last)

    def _batches_of(self, offset: int, end_offset: int) -> Steps[Stretch]:
        """What is between two offsets. Raises `LogClosed`, `LogDamaged`, `OSError`, and `NoLongerTrue`."""
        found, log = Stretch(), self._shared
        while offset < end_offset:
            stretch = yield from brought(log, offset)
            assert stretch is not None, "what is final does not go away but with the log"
            for index in range(stretch.index_of(offset), len(stretch)):
                placed = stretch.placed[index]
                if placed.last_offset >= end_offset:
                    break
                found.append(stretch.batches[index], placed)
                self._work.moved_bytes += placed.size_bytes
                offset = placed.last_offset + 1
            yield None
        return found

    def _put(
        self, parts: tuple[Part, ...], end_offset: int, stretch: Stretch, index: WrittenIndex | None, *, is_last: bool
    ) -> Awaitable[None]:
        """Commit it in the place of these parts; with the last of a pass, how far that came."""
        log, first = self._shared, parts[0]
        runs = runs_of(first.base_offset, end_offset, stretch.batches, stretch.placed)

        def take_over() -> bool:
            if any(part not in log.parts for part in parts):
                return False
            at = log.parts.index(first)
            log.parts[at : at + len(parts)] = [_made_of(parts, stretch, len(runs))]
            if index is not None:
                bases = [part.base_offset for part in parts]
                finish(self._derived.segments_compacted(bases, log.beside.keep_index(bases, index)))
            if is_last:
                log.beside.write_number(CHECKPOINT, self.first_dirty_offset)
            return True

        if log.source is None:
            raise LogClosed
        return log.source.put(Replacement(first.base_offset, end_offset - 1, runs, stretch.batches, take_over))


def _scratch_log(files: KeptFiles, config: LogConfig, now_ms: int) -> Steps[SegmentLog]:
    """A log over what is in these files, which are read for that."""
    wanted = replace(
        config,
        segment_bytes=PART_BYTES,
        min_cleanable_dirty_ratio=0.0,
        min_compaction_lag_ms=0,
        max_compaction_lag_ms=LATEST_MS,
    )
    made: list[SegmentLog] = []
    recovery = Recovery(sync=False)
    yield lambda: made.append(SegmentLog.open(files, SCRATCH, wanted, now_ms=lambda: now_ms, recovery=recovery))
    return made[0]


def _content_of(files: KeptFiles, base_offset: int) -> Steps[Stretch]:
    """The batches of a segment."""
    made: list[Stretch] = []
    file = files.open(f"{SCRATCH}/{file_name(base_offset, LOG)}")
    yield lambda: made.append(stretch_of([file.read(0, file.size())]))
    return made[0]


def _made_of(parts: Sequence[Part], stretch: Stretch, runs: int) -> Part:
    newest_ms = max((placed.max_timestamp_ms for placed in stretch.placed), default=-1)
    first = parts[0]
    return Part(first.base_offset, stretch.size_bytes, len(stretch), newest_ms, first.begun_ms, runs, first.first_ms)
