"""What groups hold in memory is bounded, whatever clients send (docs/decisions/0009); present members go on."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from broker.coordination.groups import SCARCE_LOOK_MS, SoonRounds
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.held import Held, text_bytes
from coordinator.runtime import NotReady
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroupsRequest
from tests.harness.group_settings import FixedGroupSettings
from tests.harness.memory_shard_log import VirtualTime
from tests.unit.groups.story import SESSION_MS, Story, joined, synced
from tests.unit.groups.wire import Broker, commit, join, run_story

MOST_BYTES = 500_000
LONG = "x" * 30_000
REFUSED = ErrorCode.COORDINATOR_NOT_AVAILABLE
Attempt = Callable[[Story, int], ErrorCode]


def small() -> Story:
    return Story(FixedGroupSettings(max_held_bytes=MOST_BYTES, offsets_retention_ms=SESSION_MS))


def held_bytes(story: Story) -> int:
    return story.shard.machine.ledger.held.bytes


def long_group_id(story: Story, number: int) -> ErrorCode:
    return ErrorCode(joined(story.join(group=f"{number}{LONG}")).error_code)


def long_client_id(story: Story, number: int) -> ErrorCode:
    story.join(group="many", client=f"{number}{LONG}", version=3)
    return ErrorCode.NONE


def long_instance(story: Story, number: int) -> ErrorCode:
    story.join(group="many", instance=f"{number}{LONG}")
    return ErrorCode.NONE


def many_protocols(story: Story, number: int) -> ErrorCode:
    story.join(
        group="many", version=3, protocols=[("range", b""), *((f"{number}-{one}", b"m" * 100) for one in range(50))]
    )
    return ErrorCode.NONE


def ids_not_fetched(story: Story, number: int) -> ErrorCode:
    return ErrorCode(joined(story.join(group=f"{number % 7}", client="c" * 200)).error_code)


def metadata_that_grows(story: Story, number: int) -> ErrorCode:
    if number == 0:
        story.join(group="grows", instance="i", protocols=(("range", b""),))
        story.tick()
    member = story.describe("grows").members[0].member_id
    ticket = story.join(member, group="grows", instance="i", protocols=(("range", bytes(number * 20_000)),))
    return ErrorCode.NONE if ticket.waiting else ErrorCode(joined(ticket).error_code)


def offsets_with_metadata(story: Story, number: int) -> ErrorCode:
    return story.commit(1, partition=number, metadata="m" * 4_000, group="offsets")


def offsets_in_transactions(story: Story, number: int) -> ErrorCode:
    return story.commit(1, partition=number % 3, metadata="m" * 4_000, group="offsets", producer=number)


def large_assignments(story: Story, number: int) -> ErrorCode:
    group = f"assigned-{number}"
    ticket = story.join(group=group, version=3)
    story.tick()
    answer = joined(ticket)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    sync = story.sync(answer.member_id, answer.generation_id, {answer.member_id: bytes(30_000)}, group=group)
    return ErrorCode(synced(sync).error_code)


@pytest.mark.parametrize(
    "attempt",
    [
        long_group_id,
        long_client_id,
        long_instance,
        many_protocols,
        ids_not_fetched,
        metadata_that_grows,
        offsets_with_metadata,
        offsets_in_transactions,
        large_assignments,
    ],
    ids=lambda attempt: attempt.__name__.replace("_", " "),
)
def test_nobody_makes_groups_hold_more_than_the_bound(attempt: Attempt) -> None:
    story = small()
    (member,) = story.stable()
    assert story.commit(1, member=member, generation=1, metadata="m") is ErrorCode.NONE
    refused = [attempt(story, number) for number in range(700)].count(REFUSED)
    story.tick()
    assert MOST_BYTES * 0.8 < held_bytes(story) <= MOST_BYTES
    if attempt not in (long_client_id, long_instance, many_protocols):
        assert refused > 0

    assert story.heartbeat(member, 1) is ErrorCode.NONE
    assert story.commit(2, member=member, generation=1, metadata="n") is ErrorCode.NONE
    assert joined(story.join(member, protocols=(("range", b"other"),))).error_code == ErrorCode.NONE
    assert synced(story.sync(member, 2, {member: b"m"})).error_code == ErrorCode.NONE


def test_all_is_released_after_members_leave_and_offsets_expire() -> None:
    story = small()
    for number in range(100):
        long_group_id(story, number)
        large_assignments(story, number)
        offsets_with_metadata(story, number)
    story.time.advance(400_000)
    story.submit(lambda machine, ticket, now: machine.look_for_unused(now))
    story.time.advance(1_000)  # a round takes some steps
    assert story.listed() == []
    assert held_bytes(story) == 0


@pytest.mark.parametrize("named", [True, False], ids=["with its id", "without its id"])
def test_a_static_member_comes_back_where_memory_is_short(named: bool) -> None:
    """It takes the place of itself, whether it still knows its id or not (KIP-345)."""
    story = small()
    large = (("range", bytes(300_000)),)
    story.join(group="grows", instance="i", protocols=large, version=5)
    story.tick()
    member = story.describe("grows").members[0].member_id
    assert MOST_BYTES - held_bytes(story) < 300_000
    back = story.join(member if named else "", group="grows", instance="i", protocols=large, version=5)
    story.tick()
    assert joined(back).error_code == ErrorCode.NONE


def test_a_group_of_a_refused_member_is_not_there() -> None:
    story = small()
    for number in range(100):
        long_group_id(story, number)
    assert joined(story.join(group=LONG)).error_code == REFUSED
    assert LONG not in story.listed()


def test_shards_share_one_bound() -> None:
    total = Held()
    settings = FixedGroupSettings(max_held_bytes=MOST_BYTES)
    first, second = (GroupCoordinator(settings, Held(total)) for _ in range(2))
    assert first.ledger.held.total is second.ledger.held.total
    story = Story(settings)
    story.shard.machine = first
    while long_group_id(story, total.bytes) is not REFUSED:
        pass
    story.shard.machine = second
    assert long_group_id(story, 0) is REFUSED
    first.ledger.held.let_go()
    assert long_group_id(story, 0) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_commit_of_a_new_group_is_refused_where_there_is_no_room(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        asked = 0
        while (await broker.ask(join(group=f"{asked}-{LONG}"), 9)).error_code != REFUSED:
            asked += 1
        committed = await broker.ask(commit(1, group_id=f"new-{LONG}"), 8)
        assert committed.topics[0].partitions[0].error_code == REFUSED

    run_story(story, tmp_path, {"tallystick.groups.max.bytes": str(1 << 20)})


def test_empty_groups_are_searched_at_once_when_memory_is_scarce(tmp_path: Path) -> None:
    """And not after the ten minutes of `offsets.retention.check.interval.ms`."""

    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        asked = 0
        while (await broker.ask(join(group=f"{asked}-{LONG}", session_ms=1), 9)).error_code != REFUSED:
            asked += 1
        first = DescribeGroupsRequest(groups=[f"0-{LONG}"])
        while (await broker.ask(first, 5)).groups[0].group_state != "Dead":
            await asyncio.sleep(0.01)
            await broker.ask(join(group=f"more-{LONG}", session_ms=1), 9)

    run_story(story, tmp_path, {"tallystick.groups.max.bytes": str(1 << 20), "group.min.session.timeout.ms": "1"})


class ScarceShards:
    """Shards of which one is loading: what they are asked, and when they are to be looked at."""

    def __init__(self, time: VirtualTime) -> None:
        self.timer = self.clock = time
        self.asked: list[str] = []

    def all(self) -> list[Any]:
        return [Mock(submit=partial(self._submit, name)) for name in ("loading", "ready")]

    def _submit(self, name: str, operation: Callable[[Any, int], Any]) -> None:
        self.asked.append(name)
        if name == "loading":
            raise NotReady(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        machine = Mock()
        operation(machine, 7)
        machine.look_for_unused.assert_called_once_with(7)


def test_scarce_rooms_are_searched_once_in_a_while() -> None:
    """However often room is missed meanwhile, and whichever shards can be searched."""
    time = VirtualTime()
    shards = ScarceShards(time)
    rounds = SoonRounds(cast(Any, shards))
    for _ in range(2):
        shards.asked.clear()
        rounds.begin()
        time.advance(SCARCE_LOOK_MS - 1)
        rounds.begin()
        assert not shards.asked
        time.advance(1)
        assert shards.asked == ["loading", "ready"]
        time.advance(10 * SCARCE_LOOK_MS)
        assert shards.asked == ["loading", "ready"]


def test_a_look_for_what_nobody_needs_changes_nothing_by_itself() -> None:
    story = small()
    found = story.shard.machine.look_for_unused(story.time.now_ms())
    assert (found.records, found.block, found.answers) == ((), None, [])


@pytest.mark.parametrize("letter", ["a", "\N{GRINNING FACE}"])
def test_a_text_counts_as_what_it_takes_up_at_most(letter: str) -> None:
    text = letter * 10_000
    assert 0 <= sys.getsizeof(text) - text_bytes(text, None) < 100


def test_groups_that_were_never_made_take_no_room() -> None:
    """However often somebody joins one with protocols that no group can have."""
    story = Story()
    for number in range(3):
        for protocols, kind in (((), "consumer"), ((("range", b""),), "")):
            ticket = story.join(group=f"g{number}", version=3, protocols=protocols, protocol_type=kind)
            assert joined(ticket).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.shard.machine.ledger.held.bytes == 0
