"""Who is to have what: what an assignor is asked for a group, and what is written of its answer."""

from dataclasses import replace

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator.groups.consumer.log_entries import assignment_epoch, target_assignment
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.targets import (
    is_homogeneous,
    new_targets,
    preferred_assignor,
    records_of_targets,
    target_of,
    topics_wanted,
    with_member,
)
from tests.unit.consumer_groups.story import Topics, topic_id

T, U, V = topic_id("t"), topic_id("u"), topic_id("v")
A, B, C = (ConsumerMember(name, topics=frozenset(("t",))) for name in "ABC")


def members(*some: ConsumerMember) -> dict[str, ConsumerMember]:
    return {member.member_id: member for member in some}


def group_of(*some: ConsumerMember) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in some:
        group.put(member)
    return group


def topics(**counts: int) -> Topics:
    made = Topics()
    for name, partitions in counts.items():
        made.set(name, partitions)
    return made


def test_the_assignor_that_most_ask_for_and_of_two_the_first() -> None:
    by_range, uniform = replace(B, assignor="range"), replace(C, assignor="uniform")
    assert preferred_assignor(members(A)) is None
    assert preferred_assignor(members(A, by_range)) == "range"
    assert preferred_assignor(members(by_range, uniform)) == "uniform", "as in Kafka"
    assert preferred_assignor(members(uniform, by_range)) == "uniform"
    assert preferred_assignor(members(by_range, uniform, replace(A, assignor="uniform"))) == "uniform"


def test_members_are_alike_where_topics_and_expressions_are() -> None:
    assert is_homogeneous({})
    assert is_homogeneous(members(A))
    assert is_homogeneous(members(A, replace(B, regex=None)))
    assert not is_homogeneous(members(A, replace(B, regex="a")))
    assert not is_homogeneous(members(A, replace(B, topics=frozenset(("u",)))))


def test_all_topics_that_anybody_wants() -> None:
    group = group_of(A)
    group.resolve("a", ResolvedRegex(frozenset(("a1", "a2")), 1, 2))
    group.resolve("b", ResolvedRegex(frozenset(("b1",)), 1, 2))
    wanting = members(A, replace(B, topics=frozenset(("u",)), regex="a"), replace(C, regex="b"))
    assert topics_wanted(group, wanting) == {"t", "u", "a1", "a2", "b1"}
    assert topics_wanted(group, members(replace(A, regex="unknown"))) == {"t"}
    assert topics_wanted(group, members(replace(A, regex=""))) == {"t"}


def test_a_member_takes_its_own_place_or_that_of_its_instance_id() -> None:
    group = group_of(replace(A, instance_id="one"), B)
    later = replace(B, epoch=5)
    assert with_member(group, later) == members(replace(A, instance_id="one"), later)
    instead = replace(C, instance_id="one")
    assert list(with_member(group, instead)) == ["B", "C"]
    assert list(with_member(group, replace(A, instance_id="one"))) == ["A", "B"]
    assert list(with_member(group, replace(C, instance_id="two"))) == ["A", "B", "C"]


def test_targets_by_the_assignor_that_is_preferred_or_by_the_default() -> None:
    group = group_of()
    both = frozenset(("t", "u", "nothing"))
    for assignor, default, shares in (
        (None, "range", [{T: {0, 1}, U: {0, 1}}, {T: {2}, U: {2}}]),
        ("range", "uniform", [{T: {0, 1}, U: {0, 1}}, {T: {2}, U: {2}}]),
        ("uniform", "range", [{T: {0, 1, 2}}, {U: {0, 1, 2}}]),
    ):
        asking = members(replace(A, topics=both, assignor=assignor), replace(B, topics=both))
        assert list(new_targets(group, asking, topics(t=3, u=3), default).values()) == shares


def test_what_members_have_is_kept_also_under_another_member_id() -> None:
    group = group_of(replace(A, instance_id="one"), B)
    group.aim("A", {T: frozenset((2, 3))})
    group.aim("B", {T: frozenset((0, 1))})
    asking = members(replace(C, instance_id="one"), B)
    assert new_targets(group, asking, topics(t=4), "uniform") == {"C": {T: {2, 3}}, "B": {T: {0, 1}}}


def test_members_that_want_different_topics() -> None:
    group = group_of()
    group.resolve("v", ResolvedRegex(frozenset(("v",)), 1, 2))
    asking = members(A, replace(B, topics=frozenset(("u",))), replace(C, topics=frozenset(), regex="v"))
    assert new_targets(group, asking, topics(t=2, u=1, v=1), "uniform") == {
        "A": {T: {0, 1}},
        "B": {U: {0}},
        "C": {V: {0}},
    }


def test_only_targets_that_have_changed_are_written_and_the_epoch_last() -> None:
    group = group_of(A, B)
    same: Assignment = {T: frozenset((0,))}
    group.aim("A", same)
    group.aim("B", same)
    other: Assignment = {T: frozenset((1,))}
    targets = {"A": {T: frozenset((0,))}, "B": other, "C": {}}
    assert records_of_targets(group, targets, 7, 99) == [
        target_assignment("g", "B", other),
        target_assignment("g", "C", {}),
        assignment_epoch("g", 7, 99),
    ]
    assert (target_of(targets, "B"), target_of(targets, "Z")) == (other, {})
