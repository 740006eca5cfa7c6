"""What is committed in the place of runs that a log has had before."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from protocol.schema import Buffer
from storage.segments.stamping import Placed
from storage.shared.checked_run import heads_crc
from storage.shared.store import Run

RUN_BYTES = 1 << 20
"""A run has as much, or one batch that is larger."""


def _nothing() -> None:
    """Nobody waits for it."""


@dataclass(slots=True)
class Replacement:
    """From its first offset up to its last: `runs`, whose bytes are `batches`, one behind the other. `take_over` is
    called when the commit begins, and says whether they still stand whose place it takes; `done` when all is over, one
    way or the other."""

    first_offset: int
    last_offset: int
    runs: tuple[Run, ...]
    batches: Sequence[Buffer]
    take_over: Callable[[], bool]
    done: Callable[[], None] = _nothing

    @property
    def size_bytes(self) -> int:
        return sum(run.size_bytes for run in self.runs)


def runs_of(
    first_offset: int,
    end_offset: int,
    batches: Sequence[Buffer],
    placed: Sequence[Placed],
    begin_at: Collection[int] = (),
) -> tuple[Run, ...]:
    """Runs of these batches without a gap between two offsets, though there may be some between the batches. A batch at
    one of some offsets begins a new one."""
    runs: list[Run] = []
    position = size_bytes = begin = 0
    newest_ms, base_offset = -1, first_offset
    for number, batch in enumerate(placed):
        size_bytes += batch.size_bytes
        newest_ms = max(newest_ms, batch.max_timestamp_ms)
        is_last = number + 1 == len(placed)
        following = None if is_last else placed[number + 1]
        if (
            following is not None
            and size_bytes + following.size_bytes <= RUN_BYTES
            and following.base_offset not in begin_at
        ):
            continue
        last_offset = end_offset - 1 if is_last else batch.last_offset
        crc = heads_crc(batches[begin : number + 1])
        runs.append(Run(base_offset, last_offset, position, size_bytes, newest_ms, crc))
        begin = number + 1
        position, size_bytes, newest_ms, base_offset = position + size_bytes, 0, -1, last_offset + 1
    return tuple(runs)
