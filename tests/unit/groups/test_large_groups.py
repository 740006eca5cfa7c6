"""What a group of thousands costs in one turn of the loop: its generation is written down in steps, and what is seen
meanwhile is a group whose leader has not spoken yet.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups import assigning, subscriptions
from coordinator.groups.logged import LoggedMember
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from tests.harness.group_settings import FixedGroupSettings
from tests.harness.memory_shard_log import CollectingTicket
from tests.harness.turns import CallsPerTurn
from tests.unit.groups.story import REBALANCE_MS, Story, joined, subscription, synced
from tests.unit.groups.wire import Broker, run_story

MEMBERS = 1_700
PROTOCOLS = (("range", subscription("t")),)


def crowd() -> tuple[Story, list[str]]:
    """A large group whose leader has yet to assign."""
    story = Story(FixedGroupSettings(max_batch_bytes=1 << 30))
    tickets = [story.join(version=3, protocols=PROTOCOLS) for _ in range(MEMBERS)]
    story.tick()
    return story, [joined(ticket).member_id for ticket in tickets]


def shares(ids: list[str]) -> dict[str, bytes]:
    return {member: member.encode() for member in ids}


def all_syncing() -> tuple[Story, list[str], list[CollectingTicket]]:
    story, ids = crowd()
    waiting = [story.sync(member, 1) for member in ids[1:]]
    waiting.insert(0, story.sync(ids[0], 1, shares(ids)))
    return story, ids, waiting


def test_a_generation_of_many_is_written_down_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    read = LoggedMember.of
    monkeypatch.setattr(LoggedMember, "of", lambda member: made.append(member.member_id) or read(member))
    story, ids, waiting = all_syncing()
    steps = 0
    while waiting[0].waiting:
        assert len(made) <= (steps + 1) * assigning.AT_ONCE
        assert story.state == "CompletingRebalance"
        assert all(ticket.waiting for ticket in waiting), "all of them together, when it is written"
        story.time.advance(1)
        steps += 1
    assert steps >= MEMBERS // assigning.AT_ONCE
    assert made == ids, "once each: what was just written is not read again"
    assert story.state == "Stable"
    assert [synced(ticket).assignment for ticket in waiting] == [member.encode() for member in ids]
    story.restart()
    assert [member.member_assignment for member in story.describe().members] == [member.encode() for member in ids]


def test_a_member_leaving_meanwhile_starts_another_rebalance() -> None:
    story, ids, waiting = all_syncing()
    assert story.leave(ids[-1]) == [ErrorCode.NONE]
    refused = [ErrorCode(synced(ticket).error_code) for ticket in waiting]
    assert refused == [ErrorCode.REBALANCE_IN_PROGRESS] * (MEMBERS - 1) + [ErrorCode.UNKNOWN_MEMBER_ID]
    story.time.advance(100)
    assert story.state == "PreparingRebalance"
    assert story.listed(["Stable"]) == []


def test_a_leader_that_speaks_twice_is_heard_the_second_time() -> None:
    story, ids, waiting = all_syncing()
    again = story.sync(ids[0], 1, dict.fromkeys(ids, b"second"))
    assert synced(waiting[0]).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    story.time.advance(100)
    assert {synced(ticket).assignment for ticket in (again, *waiting[1:])} == {b"second"}


def test_members_that_never_sync_are_removed() -> None:
    """The time for it ends while the record is made: the leader has spoken, so it is not given up."""
    story, ids = crowd()
    waiting = [story.sync(member, 1) for member in ids[1:-1]]
    for _ in range(REBALANCE_MS // 5_000 - 1):
        story.time.advance(5_000)
        for member in (ids[0], ids[-1]):
            assert story.heartbeat(member, 1) is ErrorCode.NONE
    story.time.advance(5_000 - 1)
    leader = story.sync(ids[0], 1, shares(ids))
    story.time.advance(100)
    assert synced(leader).assignment == ids[0].encode()
    assert all(synced(ticket).error_code == ErrorCode.NONE for ticket in waiting)


def test_what_a_log_refuses_is_refused_to_all() -> None:
    story, _, waiting = all_syncing()
    story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    story.time.advance(100)
    assert all(ticket.errors == [ErrorCode.UNKNOWN_SERVER_ERROR] for ticket in waiting)
    assert story.state == "CompletingRebalance"


def test_topics_of_many_members_are_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "READ_AT_ONCE_BYTES", 2_000)
    story, ids, waiting = all_syncing()
    story.commit(1, member=ids[0], generation=1)
    story.time.advance(100)
    assert synced(waiting[0]).error_code == ErrorCode.NONE
    story.commit(1, member=ids[0], generation=1, topic="t")
    story.commit(1, member=ids[0], generation=1, topic="u")
    asked = 0
    while not (answer := story.delete_offsets(0, topic="t")).errors:
        asked += 1
    assert asked > 10
    assert answer.errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert story.delete_offsets(0, topic="u").errors == [ErrorCode.NONE]


def test_answers_to_many_leave_some_in_a_turn(tmp_path: Path) -> None:
    """Each wakes a handler that writes its response."""
    answered: list[Any] = []

    async def story(broker: Broker) -> None:
        await broker.found()
        write = CallsPerTurn(answered.append)
        request = JoinGroupRequest(
            group_id="crowd",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )

        async def member() -> None:
            write(await broker.ask(request, 3))

        members = [asyncio.ensure_future(member()) for _ in range(MEMBERS)]
        await asyncio.gather(*members)
        assert len(answered) == MEMBERS
        assert write.most <= 1024

    run_story(story, tmp_path, {"group.initial.rebalance.delay.ms": "100"})
