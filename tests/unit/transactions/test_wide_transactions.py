"""A transaction over thousands of partitions: its markers are begun some in a turn, its partitions counted by topic."""

from collections import deque
from collections.abc import Callable

import pytest

from coordinator.transactions.states import TopicPartitions, TransactionState, by_topic, united
from protocol.errors import ErrorCode
from tests.unit.transactions.rig import ID, OFFSETS, T0, TOPIC_ID, Rig

WIDE = TopicPartitions("wide", TOPIC_ID, tuple(range(5_000)))
IN_A_TURN = 100


class Stretches:
    """Stretches of time that end after so many looks; the next begins when the test says so."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self._looks = 0

    def begin(self) -> "Stretches":
        self._looks = 0
        return self

    def spent(self) -> bool:
        self._looks += 1
        return self._looks > IN_A_TURN

    def call_in_turn(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def next(self) -> None:
        self._looks = 0
        self.waiting.popleft()()


def decided(rig: Rig, *partitions: TopicPartitions) -> None:
    rig.init()
    assert rig.add((1000, 0), *partitions).answer is ErrorCode.NONE
    rig.end((1000, 0), commit=True)


def test_markers_of_a_wide_transaction_start_in_slices() -> None:
    stretches = Stretches()
    rig = Rig(begin_turn=stretches.begin)
    decided(rig, WIDE)
    turns = 0
    while stretches.waiting:
        assert len(rig.leaders.written) == (turns + 1) * IN_A_TURN
        assert rig.state().state is TransactionState.PREPARE_COMMIT
        stretches.next()
        turns += 1
    assert turns == len(WIDE.partitions) // IN_A_TURN - 1
    assert [partition for _, partition, _ in rig.leaders.written] == list(WIDE.partitions)
    assert rig.state().state is TransactionState.COMPLETE_COMMIT
    assert rig.completed == [ID]


def test_another_transaction_has_its_turn_behind_it() -> None:
    stretches = Stretches()
    rig = Rig(begin_turn=stretches.begin)
    decided(rig, WIDE)
    rig.init("other")
    rig.add((1001, 0), T0, transactional_id="other")
    rig.end((1001, 0), commit=False, transactional_id="other")
    assert rig.state("other").state is TransactionState.PREPARE_ABORT
    assert len(stretches.waiting) == 1, "one work for all"
    while stretches.waiting:
        stretches.next()
    assert rig.state("other").state is TransactionState.COMPLETE_ABORT
    assert rig.completed == [ID, "other"]


def test_a_restart_between_two_turns_begins_again() -> None:
    stretches = Stretches()
    rig = Rig(begin_turn=stretches.begin)
    decided(rig, WIDE)
    rig.restart()
    written = len(rig.leaders.written)
    stretches.next()
    assert len(rig.leaders.written) == written, "the shard of before has nothing to say any more"
    while stretches.waiting:
        stretches.next()
    assert rig.state().state is TransactionState.COMPLETE_COMMIT
    assert {partition for _, partition, _ in rig.leaders.written} == set(WIDE.partitions)


@pytest.mark.parametrize("known", [(), (T0,), (WIDE,), (T0, WIDE)])
@pytest.mark.parametrize("added", [(), (T0,), (WIDE, OFFSETS), (TopicPartitions("t", bytes(16), (0, 9)),)])
def test_the_union_is_that_of_all_partitions(
    known: tuple[TopicPartitions, ...], added: tuple[TopicPartitions, ...]
) -> None:
    union = united(known, added)
    named = {(one.topic, index) for one in (*known, *added) for index in one.partitions}
    assert {(one.topic, index) for one in union for index in one.partitions} == named
    assert sum(len(one.partitions) for one in union) == len(named)
    assert united(union, added) is union


def test_partitions_of_a_topic_stand_together() -> None:
    mixed = [("t", TOPIC_ID, 2), ("u", TOPIC_ID, 0), ("t", TOPIC_ID, 1), ("t", TOPIC_ID, 2)]
    assert by_topic(mixed) == [TopicPartitions("t", TOPIC_ID, (1, 2)), TopicPartitions("u", TOPIC_ID, (0,))]
