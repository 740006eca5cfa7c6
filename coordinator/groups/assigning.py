"""The record of a generation with its assignments, made in steps: a large group is written by a large record.

While it is made the group is what it is before its leader has spoken; a join or leave meanwhile begins another
rebalance, and the record is forgotten.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from coordinator.groups.log_entries import GROUP_METADATA_VERSION, group_key
from coordinator.groups.logged import LoggedGroup, LoggedMember
from coordinator.groups.membership import Membership
from coordinator.groups.records import GroupMetadataValue, MemberMetadata
from coordinator.machine import Record
from protocol.codec import versioned_in_steps

AT_ONCE = 500
"""Members of one step: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A record, and what it will be read as."""

    record: Record
    value: bytes
    group: LoggedGroup


Assigning = Generator[None, None, Assigned]


def assigning(group: Membership, assignments: Mapping[str, bytes]) -> Assigning:
    """A member not named in the assignments gets the empty one."""
    members: list[MemberMetadata] = []
    logged: dict[str, LoggedMember] = {}
    for member in list(group.members.values()):
        one = MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol),
            assignment=assignments.get(member.member_id, b""),
        )
        members.append(one)
        logged[one.member_id] = LoggedMember.of(one)
        if len(members) % AT_ONCE == 0:
            yield
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp_ms,
        members=members,
    )
    looks = 0

    def spent() -> bool:
        nonlocal looks
        looks += 1
        return looks % AT_ONCE == 0

    data = yield from versioned_in_steps(value, GROUP_METADATA_VERSION, spent)
    made = Assigned(Record(group_key(group.group_id), data), data, LoggedGroup.of(group.group_id, value, logged))
    if len(members) > AT_ONCE:
        yield  # To write it and to answer all members is another step.
    return made


def assigned(group: Membership, assignments: Mapping[str, bytes]) -> Assigned:
    """The same at once."""
    steps = assigning(group, assignments)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: Assigned = done.value
            return made
