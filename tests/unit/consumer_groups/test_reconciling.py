"""From what a member has to what it is to have: each way that one step may go, in full."""

from dataclasses import replace

import pytest

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.member import ConsumerMember, MemberState
from coordinator.groups.consumer.reconciling import Owned, Reconciliation
from coordinator.groups.consumer.refusal import Refusal
from protocol.errors import ErrorCode

T, U = b"t" * 16, b"u" * 16
TARGET_EPOCH = 7
MEMBER = ConsumerMember("A", epoch=5, previous_epoch=4, assigned={T: {0: 3, 1: 5}, U: {0: 4}})
GIVING_BACK = replace(MEMBER, state=MemberState.UNREVOKED_PARTITIONS, assigned={T: {1: 5}}, revoking={T: {0: 3}})
WAITING = replace(
    MEMBER, epoch=TARGET_EPOCH, previous_epoch=5, state=MemberState.UNRELEASED_PARTITIONS, assigned={T: {0: 3}}
)
HAS_ALL: Owned = [(T, [0, 1]), (U, [0])]


def step(
    member: ConsumerMember,
    target: Assignment,
    owned: Owned | None = None,
    *,
    wants: tuple[bytes, ...] = (T, U),
    others: tuple[tuple[bytes, int], ...] = (),
    changed: bool = False,
    epoch: int = TARGET_EPOCH,
) -> ConsumerMember:
    """`others`: partitions that other members have."""
    own = {(topic, one) for part in (member.assigned, member.revoking) for topic, of in part.items() for one in of}
    is_owned = lambda topic, index: (topic, index) in own or (topic, index) in others  # noqa: E731
    return Reconciliation(epoch, target, wants, is_owned, owned, changed).next_of(member)


def test_a_member_at_the_epoch_of_the_target_stays_as_it_is() -> None:
    other = {T: frozenset((5,))}
    assert step(MEMBER, other, HAS_ALL, epoch=5) is MEMBER
    assert step(MEMBER, other, HAS_ALL, epoch=5, changed=True) is MEMBER


def test_what_it_does_not_want_any_more_is_taken_away() -> None:
    giving = replace(
        MEMBER,
        previous_epoch=5,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={U: {0: 4}},
        revoking={T: {0: 3, 1: 5}},
    )
    assert step(MEMBER, {}, None, epoch=5, wants=(U,), changed=True) == giving
    assert step(MEMBER, {}, [(T, [1])], epoch=5, wants=(U,), changed=True) == giving
    given_back = replace(MEMBER, previous_epoch=5, assigned={U: {0: 4}})
    assert step(MEMBER, {}, [(U, [0])], epoch=5, wants=(U,), changed=True) == given_back
    assert step(MEMBER, {}, [(T, [9])], epoch=5, wants=(U,), changed=True) == given_back
    assert step(MEMBER, {}, [(U, [0])], epoch=5, wants=(U,)) is MEMBER


def test_what_is_given_back_already_is_given_back_beside_it() -> None:
    after = step(GIVING_BACK, {}, None, wants=(U,), changed=True)
    assert after == replace(GIVING_BACK, previous_epoch=5, assigned={}, revoking={T: {0: 3, 1: 5}})
    assert step(GIVING_BACK, {}, [(T, [0])], changed=True) is GIVING_BACK
    assert step(GIVING_BACK, {}, [(T, [0, 1])], wants=(U,)) is GIVING_BACK


def test_it_keeps_the_epochs_of_what_it_keeps_and_gets_what_is_free() -> None:
    after = step(MEMBER, {T: frozenset((0, 1, 2)), U: frozenset((0,))})
    assert after == replace(MEMBER, epoch=7, previous_epoch=5, assigned={T: {0: 3, 1: 5, 2: TARGET_EPOCH}, U: {0: 4}})


def test_it_waits_for_what_others_have() -> None:
    after = step(MEMBER, {T: frozenset((0, 1, 2, 3)), U: frozenset((0,))}, others=((T, 3),))
    assert after == replace(
        MEMBER,
        epoch=7,
        previous_epoch=5,
        state=MemberState.UNRELEASED_PARTITIONS,
        assigned={T: {0: 3, 1: 5, 2: 7}, U: {0: 4}},
    )
    still = step(WAITING, {T: frozenset((0, 1))}, others=((T, 1),))
    assert still == replace(WAITING, previous_epoch=7)
    done = step(WAITING, {T: frozenset((0, 1))})
    assert done == replace(WAITING, previous_epoch=7, state=MemberState.STABLE, assigned={T: {0: 3, 1: 7}})


def test_it_gives_back_first_and_gets_nothing_until_then() -> None:
    target = {T: frozenset((1, 2))}
    giving = replace(
        MEMBER,
        previous_epoch=5,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={T: {1: 5}},
        revoking={T: {0: 3}, U: {0: 4}},
    )
    for owned in (None, HAS_ALL, [(T, [0])], [(U, [0])]):
        assert step(MEMBER, target, owned) == giving
    at_target = replace(MEMBER, epoch=7, previous_epoch=5, assigned={T: {1: 5, 2: 7}})
    assert step(MEMBER, target, [(T, [1])]) == at_target
    assert step(MEMBER, target, []) == at_target


def test_who_has_given_back_goes_to_the_target() -> None:
    target = {T: frozenset((1, 2))}
    assert step(GIVING_BACK, target, None) is GIVING_BACK
    assert step(GIVING_BACK, target, [(T, [0])]) is GIVING_BACK
    after = step(GIVING_BACK, target, [(T, [1])])
    assert after == replace(
        GIVING_BACK, epoch=7, previous_epoch=5, state=MemberState.STABLE, assigned={T: {1: 5, 2: 7}}, revoking={}
    )


def test_what_it_gives_back_may_be_given_to_it_again() -> None:
    after = step(GIVING_BACK, {T: frozenset((0, 1))}, [(T, [1])])
    assert (after.state, after.assigned) == (MemberState.STABLE, {T: {1: 5, 0: 7}})


def test_a_target_of_a_topic_that_it_does_not_want_any_more_is_none() -> None:
    after = step(MEMBER, {T: frozenset((0, 1)), U: frozenset((0, 1))}, [(T, [0, 1])], wants=(T,))
    assert after == replace(MEMBER, epoch=7, previous_epoch=5, assigned={T: {0: 3, 1: 5}})


def test_a_state_of_a_later_release_ends_with_what_the_member_has() -> None:
    unknown = replace(MEMBER, state=MemberState.UNKNOWN, assigned={})
    for owned in (None, [(T, [0])]):
        with pytest.raises(Refusal) as refused:
            step(unknown, {T: frozenset((0,))}, owned)
        assert refused.value.error is ErrorCode.FENCED_MEMBER_EPOCH
        assert refused.value.message == (
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        )
    after = step(unknown, {T: frozenset((0,))}, [])
    assert after == replace(unknown, epoch=7, previous_epoch=5, state=MemberState.STABLE, assigned={T: {0: 7}})
    lost = replace(unknown, assigned={T: {0: 3}, U: {0: 4}})
    assert step(lost, {T: frozenset((0,))}, []).assigned == {T: {0: 3}}
