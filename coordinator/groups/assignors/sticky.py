"""The assignor of streams groups: tasks stay where they were, as far as every member has a fair share (KIP-1071).

1. A task stays active with the member that ran it, or goes to one that kept a copy of its state, as long as these have
   less than their share; else to the least loaded process.
2. Copies of tasks with state stay where they were, or where the task was active before, and else go to the least loaded
   process that has nothing of the task yet.

What stays is looked for by partition, what is new is given out by subtopology: so a member has the same partitions of
all of them, as far as it can be. The share of members shrinks as some of them reach it: with three tasks and two
members one has two, the other one. The load of a process is the number of its tasks for each of its members.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush

from coordinator.groups.streams.member import Tasks

Task = tuple[str, int]
"""Subtopology and partition."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A member, as the assignor sees it."""

    process_id: str
    current: Tasks


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be assigned."""

    counts: Mapping[str, int]
    """Subtopology → how many tasks it has."""
    stateful: frozenset[str]
    """Subtopologies with state."""
    copies: int
    """Of the state of each task, beside the one that is active."""


class _Process:
    """An instance of the application, and what its members were given so far."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.members: dict[str, int] = {}
        """Member → how many tasks it was given."""
        self.tasks: set[Task] = set()
        self._by_load: list[tuple[int, str]] = []
        """A heap of members with how many tasks each had when it was entered; the latest entry counts."""

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.members)

    def join(self, member_id: str) -> None:
        self.members[member_id] = 0
        heappush(self._by_load, (0, member_id))

    def least_loaded(self) -> str:
        while self._by_load[0][0] != self.members[self._by_load[0][1]]:
            heappop(self._by_load)
        return self._by_load[0][1]

    def give(self, member_id: str, task: Task) -> None:
        self.members[member_id] += 1
        heappush(self._by_load, (self.members[member_id], member_id))
        self.tasks.add(task)


class _ByLoad:
    """Processes, the least loaded first."""

    def __init__(self, processes: Iterable[_Process]) -> None:
        self._heap = [(one.load, one.position, one) for one in processes]
        heapify(self._heap)

    def give(self, task: Task, to: Callable[[str], None]) -> None:
        """To the least loaded member of the least loaded process that has nothing of the task, if there is one."""
        passed = []
        while self._heap and task in self._heap[0][2].tasks:
            passed.append(heappop(self._heap))
        if self._heap:
            _, position, process = heappop(self._heap)
            to(process.least_loaded())
            passed.append((process.load, position, process))
        for entry in passed:
            heappush(self._heap, entry)


@dataclass(slots=True)
class _Share:
    """How many tasks a member may have at most before all of them have theirs."""

    tasks: int
    members: int
    each: int = field(init=False)

    def __post_init__(self) -> None:
        self._divide()

    def _divide(self) -> None:
        self.each = -(-self.tasks // self.members) if self.members else 0

    def given(self, count: int) -> None:
        """A member has so many now; with its share it is out of the count."""
        if count == self.each:
            self.tasks -= count
            self.members -= 1
            self._divide()


class _Assignment:
    """One run of the assignor."""

    def __init__(self, workers: Mapping[str, Worker], work: Work) -> None:
        self._workers = workers
        self._work = work
        self._processes: dict[str, _Process] = {}
        for member_id, worker in workers.items():
            process = self._processes.setdefault(worker.process_id, _Process(len(self._processes)))
            process.join(member_id)
        self._ran: dict[Task, str] = {}
        self._kept: dict[Task, list[str]] = {}
        for member_id, worker in workers.items():
            self._ran.update(dict.fromkeys(_each(worker.current.active), member_id))
            for task in _each(worker.current.standby):
                self._kept.setdefault(task, []).append(member_id)
        self.active: dict[str, list[Task]] = {member_id: [] for member_id in workers}
        self.standby: dict[str, list[Task]] = {member_id: [] for member_id in workers}

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._workers[member_id].process_id]

    # -- who runs a task -------------------------------------------------------------------------------------

    def assign_active(self) -> None:
        tasks = _in_order(self._work.counts)
        share = _Share(len(tasks), len(self._workers))
        tasks = [task for task in tasks if not self._stays_active(task, self._ran.get(task), share)]
        tasks = [task for task in tasks if not self._stays_active(task, self._least_loaded_keeper(task), share)]
        by_load = _ByLoad(self._processes.values())
        for task in sorted(tasks):
            by_load.give(task, partial(self._activate, task, share))

    def _stays_active(self, task: Task, member_id: str | None, share: _Share) -> bool:
        if member_id is None or len(self.active[member_id]) >= share.each:
            return False
        self._activate(task, share, member_id)
        return True

    def _activate(self, task: Task, share: _Share, member_id: str) -> None:
        self._process(member_id).give(member_id, task)
        self.active[member_id].append(task)
        share.given(len(self.active[member_id]))

    def _least_loaded_keeper(self, task: Task) -> str | None:
        """Of those that kept a copy and whose process has nothing of the task yet."""
        kept = [member_id for member_id in self._kept.get(task, ()) if task not in self._process(member_id).tasks]
        return min(kept, key=lambda member_id: self._process(member_id).load, default=None)

    # -- who keeps a copy ------------------------------------------------------------------------------------

    def assign_standby(self) -> None:
        counts = {one: count for one, count in self._work.counts.items() if one in self._work.stateful}
        tasks = _in_order(counts)[::-1]
        total = sum(self._work.counts.values()) + len(tasks) * self._work.copies
        share = _Share(total, len(self._workers))
        left: list[tuple[Task, int]] = []
        for task in tasks:
            for copy in range(self._work.copies):
                if not self._stays_standby(task, share):
                    left.append((task, self._work.copies - copy))
                    break
        by_load = _ByLoad(self._processes.values())
        for task, copies in sorted(left):
            for _ in range(copies):
                by_load.give(task, partial(self._keep, task))

    def _stays_standby(self, task: Task, share: _Share) -> bool:
        ran = self._ran.get(task)
        for member_id in (ran, self._least_loaded_keeper(task)):
            if member_id is None or task in self._process(member_id).tasks:
                continue
            if self._process(member_id).members[member_id] < share.each:
                self._keep(task, member_id)
                share.given(self._process(member_id).members[member_id])
                return True
        return False

    def _keep(self, task: Task, member_id: str) -> None:
        self._process(member_id).give(member_id, task)
        self.standby[member_id].append(task)


def assign_sticky(workers: Mapping[str, Worker], work: Work) -> dict[str, Tasks]:
    """What each member is to have."""
    assignment = _Assignment(workers, work)
    assignment.assign_active()
    assignment.assign_standby()
    return {
        member_id: Tasks(_grouped(assignment.active[member_id]), _grouped(assignment.standby[member_id]), {})
        for member_id in workers
    }


def _in_order(counts: Mapping[str, int]) -> list[Task]:
    """By partition, then by subtopology."""
    tasks = [(subtopology, index) for subtopology, count in counts.items() for index in range(count)]
    return sorted(tasks, key=lambda task: (task[1], task[0]))


def _each(tasks: Mapping[str, frozenset[int]]) -> Iterable[Task]:
    return ((subtopology, index) for subtopology, of in tasks.items() for index in sorted(of))


def _grouped(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    grouped: dict[str, set[int]] = {}
    for subtopology, index in tasks:
        grouped.setdefault(subtopology, set()).add(index)
    return {subtopology: frozenset(grouped[subtopology]) for subtopology in sorted(grouped)}
