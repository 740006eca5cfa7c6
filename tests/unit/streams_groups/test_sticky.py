"""The assignor of streams groups: everybody gets a fair share, tasks stay where they are, copies are elsewhere."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.assignors.sticky import Work, Worker, assign_sticky
from coordinator.groups.streams.member import NO_TASKS, Tasks
from tests.unit.streams_groups.story import tasks

Assigned = Mapping[str, Tasks]


def each(ids: Mapping[str, frozenset[int]]) -> set[tuple[str, int]]:
    return {(one, index) for one, of in ids.items() for index in of}


def work(counts: Mapping[str, int], *stateful: str, copies: int = 0) -> Work:
    return Work(counts, frozenset(stateful), copies)


def test_who_comes_gets_a_share_and_the_rest_stays() -> None:
    workers = {"A": Worker("P", tasks({"0": [0, 1], "1": [0, 1]})), "B": Worker("Q", NO_TASKS)}
    assert assign_sticky(workers, work({"0": 2, "1": 2})) == {
        "A": tasks({"0": [0], "1": [0]}),
        "B": tasks({"0": [1], "1": [1]}),
    }


def test_one_who_kept_a_copy_becomes_active() -> None:
    workers = {"A": Worker("P", NO_TASKS), "B": Worker("Q", tasks({}, {"0": [1]})), "C": Worker("R", NO_TASKS)}
    assigned = assign_sticky(workers, work({"0": 3}, "0"))
    assert assigned["B"] == tasks({"0": [1]})


def test_of_those_who_kept_a_copy_the_least_loaded_becomes_active() -> None:
    workers = {
        "A": Worker("P", tasks({"1": [0]}, {"0": [0]})),
        "B": Worker("Q", tasks({}, {"0": [0]})),
    }
    assert assign_sticky(workers, work({"0": 1, "1": 1}, "0"))["B"] == tasks({"0": [0]})


def test_a_process_with_more_members_gets_more() -> None:
    workers = {name: Worker("P" if name != "D" else "Q", NO_TASKS) for name in "ABCD"}
    assigned = assign_sticky(workers, work({"0": 8}))
    assert {name: len(each(of.active)) for name, of in assigned.items()} == dict.fromkeys("ABCD", 2)


def test_copies_go_to_other_processes_and_stay_there() -> None:
    workers = {name: Worker(f"process of {name}", NO_TASKS) for name in "AB"}
    wanted = work({"0": 2, "1": 2}, "0", copies=1)
    assigned = assign_sticky(workers, wanted)
    assert assigned == {
        "A": tasks({"0": [0], "1": [0]}, {"0": [1]}),
        "B": tasks({"0": [1], "1": [1]}, {"0": [0]}),
    }
    again = {name: Worker(worker.process_id, assigned[name]) for name, worker in workers.items()}
    assert assign_sticky(again, wanted) == assigned


def test_where_a_task_was_active_before_a_copy_is_kept() -> None:
    workers = {"A": Worker("P", tasks({"0": [0, 1]})), "B": Worker("Q", NO_TASKS)}
    assigned = assign_sticky(workers, work({"0": 2}, "0", copies=1))
    assert assigned == {"A": tasks({"0": [0]}, {"0": [1]}), "B": tasks({"0": [1]}, {"0": [0]})}


def test_without_another_process_there_are_no_copies() -> None:
    workers = {"A": Worker("P", NO_TASKS), "B": Worker("P", NO_TASKS)}
    assigned = assign_sticky(workers, work({"0": 2}, "0", copies=2))
    assert [of.standby for of in assigned.values()] == [{}, {}]


def test_nobody_is_assigned_nothing() -> None:
    assert assign_sticky({}, work({"0": 2})) == {}


COUNTS = st.dictionaries(st.sampled_from("0123"), st.integers(0, 6), max_size=4)
HELD = st.lists(st.tuples(st.sampled_from("01234"), st.integers(0, 7)), max_size=6)
WORKERS = st.dictionaries(st.sampled_from("ABCDEF"), st.tuples(st.sampled_from("PQR"), HELD, HELD), min_size=1)


def grouped(held: list[tuple[str, int]]) -> dict[str, list[int]]:
    return {one: [index for other, index in held if other == one] for one, _ in held}


def spoken(workers: str) -> dict[str, Worker]:
    """`A@P 0_1 | 0_2; B@Q | 0_1`: members at processes, what they run, what they keep a copy of."""
    found = {}
    for one in workers.split(";"):
        who, *words = one.split()
        name, _, process = who.partition("@")
        bar = words.index("|")
        active, standby = ([(word[0], int(word[2:])) for word in part] for part in (words[:bar], words[bar + 1 :]))
        found[name] = Worker(process, tasks(grouped(active), grouped(standby)))
    return found


@pytest.mark.parametrize(
    ("counts", "stateful", "copies", "before", "after"),
    [
        ({"0": 1}, "0", 2, "A@Q | 0_0; B@R |", "A@Q 0_0 |; B@R | 0_0"),
        ({"0": 3}, "0", 1, "A@Q | 0_0 0_2; B@Q 0_0 | 0_1; C@P |", "A@Q 0_2 |; B@Q 0_0 | 0_1; C@P 0_1 | 0_0 0_2"),
        ({"0": 2}, "", 1, "A@P 0_1 |; B@P |", "A@P 0_1 |; B@P 0_0 |"),
        ({"0": 4}, "", 2, "A@P |; B@P 0_0 0_3 |; C@R 0_1 0_2 |", "A@P 0_3 |; B@P 0_0 |; C@R 0_1 0_2 |"),
        (
            {"0": 2, "1": 3},
            "1",
            0,
            "A@P 0_0 0_1 1_1 |; B@R | 1_0; C@R 1_2 | 1_1",
            "A@P 0_0 0_1 |; B@R 1_0 |; C@R 1_1 1_2 |",
        ),
        ({"0": 5}, "0", 1, "A@P 0_0 0_3 | 0_1", "A@P 0_0 0_1 0_2 0_3 0_4 |"),
        ({"0": 1}, "0", 2, "A@Q |; B@R 0_0 |; C@P |", "A@Q | 0_0; B@R 0_0 |; C@P | 0_0"),
        (
            {"0": 3},
            "0",
            1,
            "A@R | 0_1; B@Q |; C@P 0_0 0_1 |; D@P |",
            "A@R 0_1 | 0_0; B@Q 0_2 |; C@P 0_0 | 0_1; D@P | 0_2",
        ),
        (
            {"0": 4, "1": 2},
            "1",
            2,
            "A@R 0_1 0_3 1_0 |; B@Q | 1_0; C@R |",
            "A@R 0_1 1_0 |; B@Q 0_0 0_3 | 1_0 1_1; C@R 0_2 1_1 |",
        ),
        ({"0": 2}, "0", 2, "A@Q | 0_1; B@P 0_1 | 0_0; C@Q |", "A@Q 0_0 | 0_1; B@P 0_1 | 0_0; C@Q |"),
        ({"1": 2}, "1", 1, "A@R |; B@Q | 1_0 1_1; C@P | 1_0 1_1", "A@R | 1_0; B@Q 1_0 | 1_1; C@P 1_1 |"),
        ({"0": 1}, "0", 2, "A@R |; B@R |; C@R 0_0 |", "A@R |; B@R |; C@R 0_0 |"),
        (
            {"2": 1, "1": 3},
            "21",
            2,
            "A@P 1_0 1_2 2_0 |; B@R | 1_0; C@P | 1_0 1_2; D@Q | 1_2 2_0",
            "A@P 1_0 | 2_0; B@R 1_1 | 1_0 1_2 2_0; C@P 1_2 | 1_1; D@Q 2_0 | 1_0 1_1 1_2",
        ),
        (
            {"0": 3, "1": 1},
            "01",
            2,
            "A@Q | 0_2; B@P | 1_0; C@Q | 0_2 1_0; D@Q |",
            "A@Q 0_2 |; B@P 1_0 | 0_0 0_1 0_2; C@Q 0_0 | 1_0; D@Q 0_1 |",
        ),
        (
            {"0": 1},
            "0",
            2,
            "A@P 0_0 |; B@Q | 0_0; C@R |; D@S |; E@T |",
            "A@P 0_0 |; B@Q | 0_0; C@R | 0_0; D@S |; E@T |",
        ),
        ({"0": 1, "1": 1}, "0", 2, "A@P 0_0 |; B@Q |; C@R |; D@S 1_0 |", "A@P 0_0 |; B@Q | 0_0; C@R | 0_0; D@S 1_0 |"),
    ],
)
def test_as_apache_kafka_assigns(
    counts: Mapping[str, int], stateful: str, copies: int, before: str, after: str
) -> None:
    """What the `StickyTaskAssignor` of Kafka 4.3.1 answers. Of those who have as much to do as one another it takes
    the first in a hash table; these are cases where that is the first by name, as here."""
    assigned = assign_sticky(spoken(before), Work(counts, frozenset(stateful), copies))
    assert assigned == {name: worker.current for name, worker in spoken(after).items()}


@given(WORKERS, COUNTS, st.integers(0, 3), st.sets(st.sampled_from("0123")))
def test_whatever_was_before(
    before: dict[str, tuple[str, list[tuple[str, int]], list[tuple[str, int]]]],
    counts: dict[str, int],
    copies: int,
    stateful: set[str],
) -> None:
    """Each task is active once; copies are as many as there are other processes, or as are wanted."""
    workers = {
        name: Worker(process, tasks(grouped(active), grouped(standby)))
        for name, (process, active, standby) in before.items()
    }
    assigned = assign_sticky(workers, Work(counts, frozenset(stateful), copies))
    assert assigned.keys() == workers.keys()
    wanted = {(one, index) for one, count in counts.items() for index in range(count)}
    active = [task for of in assigned.values() for task in each(of.active)]
    assert len(active) == len(set(active)) and set(active) == wanted
    has: dict[str, list[tuple[str, int]]] = {}
    for name, of in assigned.items():
        has.setdefault(workers[name].process_id, []).extend((*each(of.active), *each(of.standby)))
    assert all(len(of) == len(set(of)) for of in has.values()), "nothing twice in a process"
    kept = [task for of in assigned.values() for task in each(of.standby)]
    most = min(copies, len({worker.process_id for worker in workers.values()}) - 1)
    assert all(kept.count(task) == (most if task[0] in stateful else 0) for task in wanted)
    assert set(kept) <= wanted


@given(st.integers(1, 9), st.integers(0, 40))
def test_members_that_come_at_once_differ_by_one(members: int, count: int) -> None:
    workers = {str(number): Worker(f"process {number}", NO_TASKS) for number in range(members)}
    sizes = [len(each(of.active)) for of in assign_sticky(workers, work({"0": count})).values()]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 30))
def test_what_moves_is_no_more_than_it_must(members: int, coming: int, count: int) -> None:
    """Members come: those that were there keep a fair share, and get nothing new."""
    workers = {str(number): Worker(f"process {number}", NO_TASKS) for number in range(members)}
    first = assign_sticky(workers, work({"0": count}))
    later = {name: Worker(worker.process_id, first[name]) for name, worker in workers.items()}
    later |= {f"new {number}": Worker(f"new process {number}", NO_TASKS) for number in range(coming)}
    assigned = assign_sticky(later, work({"0": count}))
    fair = -(-count // (members + coming))
    for name in workers:
        assert each(assigned[name].active) <= each(first[name].active)
        assert len(each(assigned[name].active)) <= fair
