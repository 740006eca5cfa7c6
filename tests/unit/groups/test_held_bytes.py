"""What groups hold, to the byte: every change is counted, and taken back when it goes."""

import pytest

from coordinator.groups.held import (
    LOGGED_GROUP_BYTES,
    LOGGED_MEMBER_BYTES,
    MEMBER_BYTES,
    MEMBERSHIP_BYTES,
    OFFSET_BYTES,
    PENDING_BYTES,
    Held,
    Room,
    text_bytes,
)
from coordinator.groups.logged import LoggedGroup, LoggedMember
from coordinator.groups.membership import Member, Membership
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import Story


def member(name: str = "m" * 2, instance: str | None = "i" * 3) -> Member:
    return Member(name, instance, "c" * 5, "h" * 7, 1, 1, {"p" * 11: bytes(13), "q": bytes(17)})


MEMBER = MEMBER_BYTES + 2 + 3 + 5 + 7 + (100 + 11 + 13) + (100 + 1 + 17)


def test_texts_count_as_their_letters() -> None:
    assert text_bytes("abc", None, "", "de") == 5
    assert text_bytes("\N{GRINNING FACE}", "a\N{GRINNING FACE}b") == 4 * 1 + 4 * 3


def test_each_change_of_a_group_is_counted() -> None:
    total = Held()
    shard = Held(total)
    before = total.bytes = 1_000_000  # of other shards
    group = Membership("g", held=shard)

    def held() -> int:
        assert total.bytes - before == shard.bytes == group.counted_bytes
        return shard.bytes - MEMBERSHIP_BYTES

    assert held() == 0
    group.hand_out("m" * 2)
    group.hand_out("gone")
    assert held() == 2 * PENDING_BYTES + 2 + 4
    group.remove("gone")
    assert held() == PENDING_BYTES + 2
    group.add(member(), "consumer")
    assert held() == MEMBER == group.members["mm"].counted_bytes
    group.add(member("another", None), "consumer")
    assert held() == MEMBER + (MEMBER - 2 - 3 + 7)
    group.remove("another")
    for assigned in (19, 5, 5, 0, 23):
        group.assign(group.members["mm"], bytes(assigned))
        assert held() == MEMBER + assigned == group.members["mm"].held_bytes == group.members["mm"].counted_bytes
    group.update(group.members["mm"], {"r" * 29: bytes(31)})
    assert held() == MEMBER_BYTES + 2 + 3 + 5 + 7 + (100 + 29 + 31) + 23
    group.remove("mm")
    assert held() == 0
    group.add(member(), "consumer")
    group.let_go()
    assert total.bytes - before == shard.bytes == 0


def test_what_the_log_says_is_counted() -> None:
    logged = LoggedMember("m" * 2, "i" * 3, "c" * 5, "h" * 7, 1, 1, bytes(11), bytes(13))
    assert logged.held_bytes == LOGGED_MEMBER_BYTES + 2 + 3 + 5 + 7 + 11 + 13
    of_two = LoggedGroup("g" * 17, 1, "t" * 19, "p" * 23, "l" * 29, members={"a": logged, "b": logged})
    assert of_two.held_bytes == LOGGED_GROUP_BYTES + 2 * 17 + 19 + 23 + 29 + 2 * logged.held_bytes


def test_offsets_are_counted_with_what_stands_beside_them() -> None:
    story = Story()
    held = story.shard.machine.ledger.held
    story.commit(1, partition=0, metadata="m" * 3)
    group_bytes = LOGGED_GROUP_BYTES + 2 * len("orders")
    assert held.bytes == group_bytes + OFFSET_BYTES + 3
    story.commit(2, partition=0, metadata="m" * 5)
    group_bytes += MEMBERSHIP_BYTES  # for it was asked for
    assert held.bytes == group_bytes + OFFSET_BYTES + 5
    story.commit(3, partition=0, metadata="m" * 7, producer=1)
    assert held.bytes == group_bytes + 2 * OFFSET_BYTES + 5 + 7
    story.end(1, commit=True)
    assert held.bytes == group_bytes + OFFSET_BYTES + 7
    story.restart()
    assert story.shard.machine.ledger.held.bytes == group_bytes - MEMBERSHIP_BYTES + OFFSET_BYTES + 7
    story.delete()
    assert story.shard.machine.ledger.held.bytes == 0


@pytest.mark.parametrize(
    ("used", "growth", "fits", "scarce"),
    [
        (0, 50, True, False),
        (0, 51, True, True),
        (50, 0, True, False),
        (51, 0, True, True),
        (60, 40, True, True),
        (60, 41, False, True),
        (200, 0, True, True),
        (200, -1, True, True),
        (200, 1, False, True),
    ],
)
def test_there_is_room_up_to_the_bound_and_a_search_from_half_of_it(
    used: int, growth: int, fits: bool, scarce: bool
) -> None:
    total = Held()
    shard = Held(total)
    total.add(used)
    searched: list[bool] = []
    total.when_scarce = lambda: searched.append(True)
    room = Room(FixedGroupSettings(max_held_bytes=100), shard)
    assert room.has(growth) == fits
    assert bool(searched) == scarce
    assert room.is_scarce == (used > 50)


def test_a_negative_rebalance_timeout_is_none() -> None:
    """As it is written down, too; -1 is that of a version that has none."""
    story = Story()
    ids = [story.new_member() for _ in range(4)]
    for member_id, given_ms in zip(ids, (-5, -1, 0, 60_000), strict=True):
        story.join(member_id, rebalance_ms=given_ms, session_ms=10_000)
    story.tick()
    story.sync(ids[0], 1, {})
    logged = story.shard.machine.ledger.groups["orders"].members
    assert [logged[member_id].rebalance_timeout_ms for member_id in ids] == [0, 10_000, 0, 60_000]
