"""By how much a request is said to make its group grow: to the byte, in the estimates of what groups hold."""

from typing import Any

import pytest

from coordinator.groups.commits import Commit, OffsetToCommit
from coordinator.groups.growth import growth_by_assignments, growth_by_commit, growth_by_join
from coordinator.groups.held import (
    LOGGED_GROUP_BYTES,
    LOGGED_MEMBER_BYTES,
    MEMBER_BYTES,
    MEMBERSHIP_BYTES,
    OFFSET_BYTES,
)
from coordinator.groups.joining import Caller
from coordinator.groups.logged import LoggedGroup
from coordinator.groups.membership import Member, Membership
from coordinator.machine import ProducerStamp
from protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from tests.unit.groups.story import GROUP, TOPIC_ID, Story

CALLER = Caller("c" * 31, "h" * 37, 9)
MEMBER_ID, INSTANCE = "m" * 11, "i" * 13
PROTOCOLS = {"p" * 17: bytes(19), "q" * 23: bytes(29)}
PROTOCOLS_BYTES = 100 + 17 + 19 + 100 + 23 + 29
MEMBER = MEMBER_BYTES + 11 + 13 + 31 + 37 + PROTOCOLS_BYTES


def join(**fields: Any) -> JoinGroupRequest:
    identity: dict[str, Any] = {"group_id": "g" * 7, "member_id": MEMBER_ID, "group_instance_id": INSTANCE} | fields
    protocols = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in PROTOCOLS.items()]
    return JoinGroupRequest(protocol_type="consumer", protocols=protocols, session_timeout_ms=1, **identity)


def with_member(assigned_bytes: int, **fields: Any) -> Membership:
    group = Membership("g" * 7)
    given: dict[str, Any] = {"client_id": CALLER.client_id, "protocols": PROTOCOLS} | fields
    group.add(
        Member(
            MEMBER_ID,
            INSTANCE,
            client_host=CALLER.client_host,
            rebalance_timeout_ms=1,
            session_timeout_ms=1,
            **given,
        ),
        "consumer",
    )
    group.assign(group.members[MEMBER_ID], bytes(assigned_bytes))
    return group


def test_a_new_group_comes_with_its_first_member() -> None:
    """Its id is held by the group and by what the log says of it."""
    assert growth_by_join(None, join(), CALLER) == MEMBER + MEMBERSHIP_BYTES + LOGGED_GROUP_BYTES + 2 * 7


def test_a_new_member_comes_with_all_it_says() -> None:
    assert growth_by_join(Membership("g" * 7), join(), CALLER) == MEMBER
    assert growth_by_join(Membership("g" * 7), join(member_id="", group_instance_id=None), CALLER) == MEMBER - 11 - 13
    assert growth_by_join(with_member(0), join(member_id="another", group_instance_id=None), CALLER) == MEMBER - 4 - 13


@pytest.mark.parametrize("assigned_bytes", [0, 41])
def test_a_member_that_joins_again_grows_by_what_is_new(assigned_bytes: int) -> None:
    """What was assigned to it stays either way."""
    assert growth_by_join(with_member(assigned_bytes), join(), CALLER) == 0
    assert growth_by_join(with_member(assigned_bytes, client_id="c" * 21), join(), CALLER) == 10
    assert growth_by_join(with_member(assigned_bytes, protocols={}), join(), CALLER) == PROTOCOLS_BYTES
    assert growth_by_join(with_member(assigned_bytes), join(member_id=""), CALLER) == -11, "known by its instance"


def test_a_leader_that_assigns_as_before_lets_nothing_grow() -> None:
    story = Story()
    first, second = story.stable(2)
    group = story.shard.machine._classic.memberships[GROUP]
    logged = story.shard.machine.ledger.groups[GROUP]
    before = {member.member_id: member.assignment for member in group.members.values()}
    assert growth_by_assignments(group, logged, before) == 0
    # For the member, and for what the log says of it.
    assert growth_by_assignments(group, logged, before | {second: before[second] + bytes(5)}) == 2 * 5
    assert growth_by_assignments(group, logged, {first: before[first]}) == -2 * len(before[second])
    metadata = len(group.members[first].metadata("range"))
    texts = len("client" + "/127.0.0.1")
    of_two = [LOGGED_MEMBER_BYTES + len(member) + texts + metadata + len(before[member]) for member in (first, second)]
    assert growth_by_assignments(group, LoggedGroup(GROUP), before) == sum(of_two)


def commit(*partitions: int, producer: int | None = None, metadata: str = "m" * 9) -> Commit:
    offsets = [OffsetToCommit("t", TOPIC_ID, partition, 1, -1, metadata) for partition in partitions]
    stamp = None if producer is None else ProducerStamp(producer, 0)
    return Commit(GROUP, -1, "", None, 8, offsets, stamp=stamp)


def test_offsets_grow_where_there_are_none() -> None:
    story = Story()
    story.commit(1, partition=0, metadata="m" * 4)
    store = story.shard.machine.ledger.offsets
    assert growth_by_commit(commit(0), store, is_new=False) == 5
    assert growth_by_commit(commit(0, 1, 2), store, is_new=False) == 5 + 2 * (OFFSET_BYTES + 9)
    new = LOGGED_GROUP_BYTES + 2 * len(GROUP)
    assert growth_by_commit(commit(0, metadata=""), store, is_new=True) == new - 4
    # One that is staged is held beside the one that is committed.
    assert growth_by_commit(commit(0, 1, producer=7), store, is_new=False) == 2 * (OFFSET_BYTES + 9)
    story.commit(1, partition=0, producer=7, metadata="m" * 6)
    assert growth_by_commit(commit(0, 1, producer=7), store, is_new=False) == 3 + OFFSET_BYTES + 9
    assert growth_by_commit(commit(0, producer=8), store, is_new=False) == OFFSET_BYTES + 9
    assert growth_by_commit(commit(0), store, is_new=False) == 5
