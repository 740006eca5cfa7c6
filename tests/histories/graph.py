"""Which operation depends on which: the edges between them, by kind.

    ww        its record stands right before the other's in a partition
    wr        the other was shown its record
    rw        the other's record stands right behind the last that it was shown
    process   it was the one before, of the same process
    realtime  it had ended before the other began; by way of points of time, nodes of their own, so that it takes two
              edges an operation and not one for each pair

Operations that were aborted have no part in it; what they polled is looked at elsewhere.
"""

from tests.histories.observed import Observed
from tests.histories.operation import OK, POLL, SEND, TXN, Operation

WW, WR, RW, PROCESS, REALTIME = "ww", "wr", "rw", "process", "realtime"


class Graph:
    """See the head of this file. The nodes behind the operations are points of time."""

    def __init__(self, observed: Observed) -> None:
        self.nodes: list[Operation] = [
            one
            for one in observed.operations
            if one.kind in (SEND, POLL) or (one.kind == TXN and observed.may_be_committed(one))
        ]
        self.size = len(self.nodes)
        self.edges: dict[str, list[tuple[int, int]]] = {kind: [] for kind in (WW, WR, RW, PROCESS, REALTIME)}
        self._numbers = {id(one): number for number, one in enumerate(self.nodes)}
        self._known: dict[str, frozenset[tuple[int, int]]] = {}
        self._observed = observed
        self._version_edges()
        self._read_edges()
        self._process_edges()
        self._time_edges()

    def adjacency(self, kinds: tuple[str, ...]) -> list[list[int]]:
        """Followers of each node by edges of these kinds."""
        found: list[list[int]] = [[] for _ in range(self.size)]
        for kind in kinds:
            for before, after in self.edges[kind]:
                found[before].append(after)
        return found

    def kind_between(self, before: int, after: int, kinds: tuple[str, ...]) -> str:
        """The first kind of edge between two nodes, for people to read."""
        for kind in kinds:
            if kind not in self._known:
                self._known[kind] = frozenset(self.edges[kind])
        return next(kind for kind in kinds if (before, after) in self._known[kind])

    def _writer(self, value: int) -> int | None:
        written = self._observed.writers.get(value)
        return None if written is None else self._numbers.get(id(written[0]))

    def _version_edges(self) -> None:
        for versions in self._observed.versions[True].values():
            last: int | None = None
            for offset in versions.offsets:
                writer = self._writer(versions.values[offset])
                if writer is None:
                    continue
                if last is not None and last != writer:
                    self.edges[WW].append((last, writer))
                last = writer

    def _read_edges(self) -> None:
        for number, one in enumerate(self.nodes):
            last: dict[tuple[str, int], int] = {}
            writers: dict[int, None] = {}
            for poll in one.polls:
                if not poll.committed_only:
                    continue
                for place, offset, value in poll.records:
                    writer = self._writer(value)
                    if writer is not None and writer != number:
                        writers[writer] = None
                    if offset > last.get(place, -1):
                        last[place] = offset
            self.edges[WR] += ((writer, number) for writer in writers)
            for place, offset in last.items():
                versions = self._observed.versions[True][place]
                rank = versions.ranks[offset] + 1
                if rank < len(versions.offsets):
                    following = self._writer(versions.values[versions.offsets[rank]])
                    if following is not None and following != number:
                        self.edges[RW].append((number, following))

    def _process_edges(self) -> None:
        last: dict[str, int] = {}
        for number, one in enumerate(self.nodes):
            if one.process in last:
                self.edges[PROCESS].append((last[one.process], number))
            last[one.process] = number

    def _time_edges(self) -> None:
        moments = [(one.invoked, 0, number) for number, one in enumerate(self.nodes)]
        # One of unknown outcome may take effect at any time after it began.
        moments += [
            (one.completed, 1, number)
            for number, one in enumerate(self.nodes)
            if one.completed is not None and one.outcome == OK
        ]
        moments.sort()
        for _, is_end, number in moments:
            if is_end:
                self.edges[REALTIME].append((number, self.size))
                if self.size > len(self.nodes):
                    self.edges[REALTIME].append((self.size - 1, self.size))
                self.size += 1
            elif self.size > len(self.nodes):
                self.edges[REALTIME].append((self.size - 1, number))
