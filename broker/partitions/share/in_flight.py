"""Records that were handed out together, as runs of offsets in one state.

A batch is what a member is handed whole when it is handed out again, unless somebody has spoken of a part of it. Runs
cover their batch without a gap; neighbours that do not differ are one.
"""

from collections.abc import Iterable, Iterator

from broker.partitions.share.states import TERMINAL, RecordState

NOBODY = ""


class Run:
    """Offsets `first` to `last`, both included, in one state. `lock_until_ms`: until when they are `member_id`'s.

    `target` is what they become once that is written; until then nobody can say anything else of them.
    """

    __slots__ = ("delivery_count", "first", "last", "lock_until_ms", "member_id", "state", "target")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int,
        member_id: str = NOBODY,
        lock_until_ms: int = 0,
    ) -> None:
        assert first <= last
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock_until_ms = lock_until_ms
        self.target: RecordState | None = None

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} {self.delivery_count} {self.member_id}>"

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.target is None

    @property
    def is_done(self) -> bool:
        return self.target is None and self.state in TERMINAL

    def become(self, state: RecordState) -> None:
        """It is nobody's any more, in this state."""
        self.state = state
        self.member_id = NOBODY
        self.lock_until_ms = 0
        self.target = None

    def cut_before(self, offset: int) -> "Run":
        """Keep what is before `offset`; returns the rest. Not while something is being written of it."""
        assert self.first < offset <= self.last
        assert self.target is None
        rest = Run(offset, self.last, self.state, self.delivery_count, self.member_id, self.lock_until_ms)
        self.last = offset - 1
        return rest

    def continues(self, other: "Run") -> bool:
        """Whether the two are one run."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.target is None
            and other.target is None
            and self.member_id == other.member_id
            and self.lock_until_ms == other.lock_until_ms
        )


class InFlightBatch:
    """See the head of this file.

    `in_parts`: somebody has spoken of a part of it, so it is not handed out whole any more. `is_new`: nothing is known
    of these records; they lie before others of which something was kept, and were never handed out in this life.
    """

    __slots__ = ("in_parts", "is_new", "runs")

    def __init__(self, runs: list[Run], *, in_parts: bool = False, is_new: bool = False) -> None:
        self.runs = runs
        self.in_parts = in_parts
        self.is_new = is_new

    @property
    def first(self) -> int:
        return self.runs[0].first

    @property
    def last(self) -> int:
        return self.runs[-1].last

    def __len__(self) -> int:
        return self.last - self.first + 1

    def within(self, first: int, last: int) -> Iterator[Run]:
        """The runs that have offsets of `first` to `last`."""
        for run in self.runs:
            if run.first > last:
                return
            if run.last >= first:
                yield run

    def cut_at(self, offsets: Iterable[int]) -> None:
        """Have runs begin at these offsets, which come in order; those outside the batch do not matter. What is being
        written is never cut."""
        runs: list[Run] = []
        cuts = iter(offsets)
        cut = next(cuts, None)
        for run in self.runs:
            while cut is not None and cut <= run.last:
                if cut > run.first and run.target is None:
                    runs.append(run)
                    run = run.cut_before(cut)
                cut = next(cuts, None)
            runs.append(run)
        self.runs = runs

    def join_runs(self) -> None:
        """Make one of neighbours that do not differ."""
        joined = [self.runs[0]]
        for run in self.runs[1:]:
            if joined[-1].continues(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined
