"""Share partitions of which something cannot be written or read, and what must not hold up their members."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import pytest

from broker.partitions.share.acknowledging import Acknowledgement, Renewal, acknowledge
from broker.partitions.share.in_flight import InFlightBatch, Run
from broker.partitions.share.states import RecordState
from broker.partitions.share.window import Window
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from storage.steps import finish
from tests.unit.share_groups.rig import ACCEPT, Member, ShareNode, in_a_share_node

LOCK_MS = 40
TURNS = 500
"""Turns of the loop in which everything is done that nobody has to wait for."""


class Endless(list[ErrorCode]):
    """One error, however often it is asked for."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__([error])
        self.times = 0

    def pop(self, _: Any = -1) -> ErrorCode:
        self.times += 1
        return self[0]


async def begun(node: ShareNode, *names: str) -> list[Member]:
    members = [Member(node, name, number) for number, name in enumerate(names)]
    for member in members:
        assert await member.fetch() == []
        await node.quiet()
    return members


@pytest.mark.parametrize("error", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_REQUEST])
def test_a_lock_ends_though_that_cannot_be_written(error: ErrorCode, tmp_path: Any) -> None:
    """Asked for once: there is nothing to be gained by asking again."""

    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(2)
        node.persister.refusals = refusals = Endless(error)
        assert await ada.fetch() == [(0, 1, 1)]
        node.settings = replace(node.settings, record_lock_duration_ms=60_000)
        assert await bob.fetch(max_wait_ms=10_000) == [(0, 1, 2)]
        assert refusals.times == 1
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE

    in_a_share_node(story, tmp_path, record_lock_duration_ms=LOCK_MS)


def test_what_a_member_that_leaves_could_not_give_back_comes_back_with_its_lock(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(2)
        assert await ada.fetch() == [(0, 1, 1)]
        node.persister.refusals.append(ErrorCode.MESSAGE_TOO_LARGE)
        await ada.leave()
        assert await bob.fetch() == []
        assert await bob.fetch(max_wait_ms=10_000) == [(0, 1, 2)]

    in_a_share_node(story, tmp_path, record_lock_duration_ms=LOCK_MS)


@pytest.mark.parametrize("state", [-1, 1, 3, 5])
def test_a_state_in_which_nothing_is_kept_is_told_to_members_and_to_the_operator(
    state: int, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: ShareNode) -> None:
        key = ("g", node.partition.topic_id, 0)
        node.persister.starts[key], node.persister.kept[key] = 0, {1: (state, 1)}
        node.append(3)
        answer = await Member(node, "ada").request(max_wait_ms=10_000)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "a share partition cannot be served" in caplog.text
        node.persister.kept.clear()
        assert await Member(node, "bob").fetch(max_wait_ms=10_000) == [(0, 2, 1)]

    in_a_share_node(story, tmp_path)


def test_what_lies_behind_an_aborted_transaction_comes_at_once(tmp_path: Any) -> None:
    """However many reads it takes; the member waits for new records, and not for those that are there."""

    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        for number in range(20):
            node.append(2, producer=(7, 2 * number))
        node.partition.append_marker(Marker(7, 0, False, 0, 1), 1)
        node.append(1)
        fetch = asyncio.create_task(ada.fetch(max_records=1, max_wait_ms=3_600_000))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert fetch.done()
        assert await fetch == [(40, 40, 1)]

    in_a_share_node(story, tmp_path, read_committed=True)


class OnlyItsEnd(Sequence[int]):
    """Types of which those before `first` are not to be looked at: there may be far more of them."""

    def __init__(self, first: int, end: Sequence[int]) -> None:
        self._first = first
        self._end = end

    def __len__(self) -> int:
        return self._first + len(self._end)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        assert isinstance(at, slice)
        assert at.start >= self._first
        return self._end[at.start - self._first :]

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all of them are looked at")


def test_what_is_said_of_records_before_the_window_is_passed_over() -> None:
    window = Window(1_000)
    window.append(InFlightBatch([Run(1_000, 1_003, RecordState.ACQUIRED, 1, "ada", 9)]))
    said = Acknowledgement(0, 1_003, OnlyItsEnd(1_000, [1, 2, 2, 3]))
    staged = finish(acknowledge(window, "ada", [said], Renewal(None), 5))
    assert [(one.first_offset, one.last_offset, one.delivery_state) for one in staged.batches()] == [
        (1_000, 1_000, RecordState.ACKNOWLEDGED),
        (1_001, 1_002, RecordState.AVAILABLE),
        (1_003, 1_003, RecordState.ARCHIVED),
    ]
