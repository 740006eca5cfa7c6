"""The counts, held against a recomputation from Spark's batch log, with Spark's own watermark rule.

    dropped    a click whose window ends at or before the watermark of the batch *before* its own
    closed     after each batch, the windows that end at or before the watermark of that batch

That the rule of dropping looks one batch back is Spark's (since 3.4): a window is closed with all that arrived with
the batch that closes it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.pipelines.batch_log import Batch
from tests.pipelines.verdict import Verdict, steps_back
from tests.pipelines.windows.plan import MINUTE_MS, Click

Window = tuple[int, int]
"""Page and start."""
Counts = dict[Window, int]
Arrived = Mapping[int, Sequence[tuple[int, Click]]]
"""(offset, click) by partition, in order."""


@dataclass(slots=True)
class Recomputed:
    """What the query must have done."""

    closed: Counts = field(default_factory=dict)
    dropped: int = 0
    states: dict[int, Counts] = field(default_factory=dict)
    """The open windows after each batch."""


def recompute(batches: Iterable[Batch], topic: str, arrived: Arrived) -> Recomputed:
    """Run the batches of the log again, one click at a time."""
    done = Recomputed()
    open_windows: Counts = {}
    place = dict.fromkeys(arrived, 0)
    watermark_before = 0
    for batch in batches:
        for partition, clicks in arrived.items():
            end = batch.ends.get((topic, partition), 0)
            while place[partition] < len(clicks) and clicks[place[partition]][0] < end:
                at_ms, page, _ = clicks[place[partition]][1]
                start = at_ms - at_ms % MINUTE_MS
                if start + MINUTE_MS <= watermark_before:
                    done.dropped += 1
                else:
                    open_windows[page, start] = open_windows.get((page, start), 0) + 1
                place[partition] += 1
        for window in [one for one in open_windows if one[1] + MINUTE_MS <= batch.watermark_ms]:
            done.closed[window] = open_windows.pop(window)
        done.states[batch.number] = dict(open_windows)
        watermark_before = batch.watermark_ms
    return done


@dataclass(slots=True)
class Found:
    """What was read."""

    counts: list[tuple[Window, int]]
    """Of the topic, in order."""
    markers: list[int]
    """Batch numbers."""
    states: Mapping[int, Counts]
    """The state store after a batch, as drivers found it when they started."""
    undecided: int = 0


def judge(wanted: Recomputed, found: Found) -> Verdict:
    times = Counter(window for window, _ in found.counts)
    wrong = sum(window in wanted.closed and wanted.closed[window] != count for window, count in found.counts)
    verdict = Verdict()
    verdict.equal("windows closed", len(times), len(wanted.closed))
    verdict.none("windows missing", len(wanted.closed.keys() - times.keys()))
    verdict.none("windows written twice", sum(count - 1 for count in times.values()))
    verdict.none("windows that are not closed", len(times.keys() - wanted.closed.keys()))
    verdict.none("windows with a wrong count", wrong)
    verdict.none("markers out of order", steps_back(found.markers))
    differing = sum(wanted.states.get(number) != dict(state) for number, state in found.states.items())
    verdict.none("restarts that found another state", differing)
    verdict.none("offsets left undecided", found.undecided)
    verdict.above("clicks too late to count", wanted.dropped)
    verdict.figures |= {"states_compared": len(found.states), "batches": len(found.markers)}
    return verdict
