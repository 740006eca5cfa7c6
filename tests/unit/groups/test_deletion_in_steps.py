"""Deletions that take several batches: others have a turn between two of them, and nothing else is waited for."""

from typing import Any, cast

import pytest

from broker.coordination.coordinators import CoordinatorError
from broker.coordination.groups import delete_group, delete_offsets
from coordinator.groups.coordinator import DeletedOffsets
from protocol.errors import ErrorCode
from tests.harness.loop import Scheduler, new_process, run_on


class OneAtATime:
    """Shards of which each question gets a part of the work done."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    async def ask(self, *_: object) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, CoordinatorError):
            raise answer
        return answer


def without_time_passing(work: Any) -> Any:
    scheduler = Scheduler()
    began = scheduler.now
    answer = run_on(new_process(scheduler, "broker"), work)
    assert scheduler.now - began < 0.01  # of the scheduler; each turn is a microsecond
    return answer


def test_offsets_are_deleted_without_a_pause() -> None:
    one = DeletedOffsets(ErrorCode.NONE, [ErrorCode.NONE])
    shards = cast(Any, OneAtATime(one, one, one))
    deleted = without_time_passing(delete_offsets(shards, "g", [("t", 0), ("t", 1), ("t", 2)]))
    assert deleted == DeletedOffsets(ErrorCode.NONE, [ErrorCode.NONE] * 3)


@pytest.mark.parametrize(
    "refused",
    [CoordinatorError(ErrorCode.NOT_COORDINATOR), DeletedOffsets(ErrorCode.NOT_COORDINATOR, [])],
    ids=["its shard is gone", "it has become another"],
)
def test_offsets_that_are_not_reached_have_an_error_each(refused: CoordinatorError | DeletedOffsets) -> None:
    """Those that are gone are gone."""
    shards = cast(Any, OneAtATime(DeletedOffsets(ErrorCode.NONE, [ErrorCode.NONE]), refused))
    deleted = without_time_passing(delete_offsets(shards, "g", [("t", 0), ("t", 1), ("t", 2)]))
    assert deleted == DeletedOffsets(ErrorCode.NONE, [ErrorCode.NONE, *[ErrorCode.NOT_COORDINATOR] * 2])


def test_a_group_is_deleted_without_a_pause() -> None:
    shards = cast(Any, OneAtATime(None, None, ErrorCode.NONE))
    assert without_time_passing(delete_group(shards, "g")) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([ErrorCode.GROUP_ID_NOT_FOUND], ErrorCode.GROUP_ID_NOT_FOUND),
        ([None, ErrorCode.GROUP_ID_NOT_FOUND], ErrorCode.NONE),
        ([None, ErrorCode.NON_EMPTY_GROUP], ErrorCode.NON_EMPTY_GROUP),
        ([None, CoordinatorError(ErrorCode.NOT_COORDINATOR)], ErrorCode.NOT_COORDINATOR),
    ],
    ids=["never was", "expired meanwhile", "joined meanwhile", "its shard is gone"],
)
def test_a_group_that_is_not_there_any_more_was_deleted(answers: list[Any], error: ErrorCode) -> None:
    shards = cast(Any, OneAtATime(*answers))
    assert without_time_passing(delete_group(shards, "g")) is error
