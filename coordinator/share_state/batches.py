"""State batches put together: of each offset what is furthest on, in as few batches as can say it."""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise

from coordinator.share_state.port import StateBatch


def combined(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """In the order of offsets, none below `start_offset`. Where batches overlap, the one that was delivered more often
    counts; of equal ones that with the higher state, so that what is acknowledged or archived stays so."""
    pending = deque(sorted(batches, key=lambda batch: batch.first_offset))
    ends = {batch.last_offset + 1 for batch in pending} | {batch.first_offset for batch in pending}
    covering: list[tuple[int, int, int]] = []
    found: list[StateBatch] = []
    for first, after in pairwise(sorted({max(end, start_offset) for end in ends})):
        while pending and pending[0].first_offset <= first:
            batch = pending.popleft()
            heappush(covering, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
        while covering and covering[0][2] < first:
            heappop(covering)
        if covering:
            count, state, _ = covering[0]
            _extend(found, StateBatch(first, after - 1, -state, -count))
    return tuple(found)


def _extend(found: list[StateBatch], batch: StateBatch) -> None:
    if found:
        last = found[-1]
        same = (last.delivery_state, last.delivery_count) == (batch.delivery_state, batch.delivery_count)
        if same and last.last_offset + 1 == batch.first_offset:
            batch = StateBatch(last.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            found.pop()
    found.append(batch)
