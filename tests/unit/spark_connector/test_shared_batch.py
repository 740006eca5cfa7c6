"""A batch that all tasks of `kafka-eos` write: who takes the lease, and what begins anew when a task is lost."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from spark_connector.errors import BadRows, BatchIncomplete, TaskLost, TurnRefused
from spark_connector.sink.shared_batch import Life, SharedBatch
from tests.harness.confluent import wait_until

NEVER_S = 1e6
LEASE = {"lease": "the first"}


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


@pytest.fixture
def batch() -> SharedBatch:
    return SharedBatch(NEVER_S, grace_s=0)


def opened(batch: SharedBatch, task: int = 0, attempt: int = 10) -> Life:
    """A task that has taken the lease."""
    life = batch.begin(task, attempt)
    assert life.opened is None
    batch.opened(life, task, attempt, LEASE)
    return life


def wrote(life: Life, task: int, *, is_done: bool = False, records: int = 4) -> None:
    """A task that has had a turn in a partition of its own."""
    life.turns.take(task, 10 + task, {}, [f"t/{task}"])
    if is_done:
        life.turns.done(task, 10 + task, {f"t/{task}": records})


def beginning(threads: ThreadPoolExecutor, batch: SharedBatch, task: int, attempt: int) -> "Future[Life]":
    """An attempt that waits before it may begin."""
    waiting = len(_waiters(batch))
    asked = threads.submit(batch.begin, task, attempt)
    wait_until(lambda: len(_waiters(batch)) > waiting, "an attempt that waits")
    return asked


def _waiters(batch: SharedBatch) -> Any:
    return batch._moved._waiters  # type: ignore[attr-defined]


def test_the_first_task_takes_the_lease_and_the_others_wait_for_it(
    threads: ThreadPoolExecutor, batch: SharedBatch
) -> None:
    first = batch.begin(0, 10)
    assert first.opened is None
    second = beginning(threads, batch, 1, 11)
    batch.opened(first, 0, 10, LEASE)
    assert second.result() is first and first.opened == LEASE
    wrote(first, 0, is_done=True)
    wrote(first, 1, is_done=True)
    assert batch.complete(0, {0: (10, 4), 1: (11, 4), 2: (12, 0)}) == {"t/0": 4, "t/1": 4}


def test_a_task_that_is_gone_before_it_has_the_lease_lets_the_next_one_take_it(
    threads: ThreadPoolExecutor, batch: SharedBatch
) -> None:
    first = batch.begin(0, 10)
    second = beginning(threads, batch, 1, 11)
    batch.gone(first, 0, 10)
    life = second.result()
    assert life.opener == (1, 11) and life.opened is None


def test_a_task_that_takes_too_long_to_take_the_lease_is_not_waited_for() -> None:
    """What it has taken by then is not the lease of the batch."""
    now_s = [0.0]
    batch = SharedBatch(30, clock=lambda: now_s[0])
    slow = batch.begin(0, 10)
    now_s[0] = 30.0
    life = opened(batch, 1, 11)
    with pytest.raises(TurnRefused, match="took too long"):
        batch.opened(slow, 0, 10, {"lease": "another"})
    assert life is slow and life.opened == LEASE


def test_a_task_that_is_lost_before_its_first_turn_costs_nothing(batch: SharedBatch) -> None:
    life = opened(batch)
    wrote(life, 1, is_done=True)
    batch.gone(life, 0, 10)
    assert batch.begin(0, 20) is life
    assert life.turns.take(0, 20, {}, ["t/0"]) == {"t/0": 0}


def test_the_batch_begins_anew_where_nobody_is_done(batch: SharedBatch) -> None:
    """Under another lease; what still runs under the first is refused all of it, its end above all."""
    life = opened(batch)
    wrote(life, 0)
    wrote(life, 1)
    life.turns.take(1, 11, {"t/1": 4}, [])
    batch.gone(life, 0, 10)
    with pytest.raises(BatchIncomplete, match="task 0 was lost"):
        life.turns.done(1, 11, {})
    after = opened(batch, 0, 20)
    assert after.number == 1 and batch.told == [LEASE, LEASE]
    assert batch.begin(1, 21) is after
    assert after.turns.take(1, 21, {}, ["t/1"]) == {"t/1": 0}, "numbers begin anew with the lease"
    batch.gone(life, 1, 11)
    assert after.turns.failure is None, "the end of an earlier attempt is none of the next life's"


def test_what_is_done_is_not_written_again_and_so_the_query_ends(batch: SharedBatch) -> None:
    life = opened(batch)
    wrote(life, 0)
    wrote(life, 1, is_done=True)
    batch.gone(life, 0, 10)
    for attempt in (20, 30):
        with pytest.raises(TaskLost, match=r"1 other task was done.*task 0 was lost.*restart.*nothing is lost"):
            batch.begin(0, attempt)
    with pytest.raises(BatchIncomplete):
        batch.complete(0, {0: (20, 0), 1: (11, 4)})


def test_what_stopped_a_task_is_what_the_query_ends_with(batch: SharedBatch) -> None:
    life = opened(batch)
    wrote(life, 0)
    wrote(life, 1, is_done=True)
    life.turns.fail(BadRows("no value"))
    with pytest.raises(BadRows, match="no value"):
        batch.begin(0, 20)


def test_one_task_alone_may_always_be_tried_again(batch: SharedBatch) -> None:
    """Also if it was done, and only its result was lost; whoever still has that is refused."""
    life = opened(batch)
    wrote(life, 0, is_done=True)
    batch.gone(life, 0, 10)
    after = opened(batch, 0, 20)
    assert after.number == 1
    with pytest.raises(BatchIncomplete, match="given up"):
        batch.complete(0, {0: (10, 4)})
    with pytest.raises(BatchIncomplete):
        life.turns.take(0, 10, {}, ["t/1"])


def test_a_lost_result_beside_others_that_are_done_ends_the_query(batch: SharedBatch) -> None:
    life = opened(batch)
    wrote(life, 0, is_done=True)
    wrote(life, 1, is_done=True)
    with pytest.raises(TaskLost, match="its result was lost"):
        batch.begin(0, 20)
    assert batch.complete(0, {0: (10, 4), 1: (11, 4)}), "who asks in vain harms nobody"


def test_a_copy_waits_while_its_task_writes(threads: ThreadPoolExecutor, batch: SharedBatch) -> None:
    """And is refused when that is done: Spark has its result, and a lease taken now would undo it."""
    life = opened(batch)
    wrote(life, 0)
    copy = beginning(threads, batch, 0, 20)
    life.turns.done(0, 10, {"t/0": 4})
    with pytest.raises(TurnRefused, match="another attempt of task 0 was done"):
        copy.result()
    assert batch.complete(0, {0: (10, 4)}) == {"t/0": 4}


def test_a_copy_that_comes_when_its_task_is_just_done_waits_for_the_commit(threads: ThreadPoolExecutor) -> None:
    batch = SharedBatch(NEVER_S, grace_s=NEVER_S)
    life = opened(batch)
    wrote(life, 0, is_done=True)
    copy = beginning(threads, batch, 0, 20)
    batch.complete(0, {0: (10, 4)})
    with pytest.raises(TurnRefused, match="complete"):
        copy.result()


def test_a_copy_takes_over_when_its_task_is_lost(threads: ThreadPoolExecutor, batch: SharedBatch) -> None:
    life = opened(batch)
    wrote(life, 0)
    copy = beginning(threads, batch, 0, 20)
    batch.gone(life, 0, 10)
    assert copy.result().opener == (0, 20)


def test_a_copy_takes_over_when_its_task_stands_still_with_its_turn(batch: SharedBatch) -> None:
    impatient = SharedBatch(0.0)
    life = opened(impatient)
    wrote(life, 0)
    assert impatient.begin(0, 20).number == 1
    assert "has not given its turn back" in str(life.turns.failure)


def test_a_batch_that_is_complete_does_not_begin_anew(batch: SharedBatch) -> None:
    """Its lease is the one that is being committed."""
    life = opened(batch)
    wrote(life, 0, is_done=True)
    batch.complete(0, {0: (10, 4)})
    for task in (0, 1):
        with pytest.raises(TurnRefused, match="complete"):
            batch.begin(task, 20)
    assert batch.complete(0, {0: (10, 4)}) == {"t/0": 4}, "a commit that is tried again"


def test_results_that_are_not_all_that_was_written_are_refused(batch: SharedBatch) -> None:
    life = opened(batch)
    wrote(life, 0, is_done=True)
    wrote(life, 1, is_done=True)
    for results in ({0: (10, 4)}, {0: (10, 4), 1: (21, 4)}, {0: (10, 4), 1: (11, 3)}):
        with pytest.raises(BatchIncomplete, match="an attempt was lost"):
            batch.complete(0, results)


def test_everybody_is_refused_when_the_batch_is_over(batch: SharedBatch) -> None:
    life = opened(batch)
    batch.end()
    with pytest.raises(TurnRefused, match="over"):
        life.turns.take(0, 10, {}, ["t/0"])
    with pytest.raises(TurnRefused, match="given up"):
        batch.begin(0, 20)
