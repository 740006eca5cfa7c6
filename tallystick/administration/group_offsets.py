"""Committed offsets of groups: set anew, and deleted; and groups deleted.

Rule 1. What is to be set is planned first, and the plan is what is then committed.
Rule 2. A group with members is left alone: they would go on where they are, and commit over it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from tallystick.client.client import GROUP, Client
from tallystick.client.errors import KafkaError, check
from tallystick.inspection.groups import CONSUMERS, committed, described, listed
from tallystick.inspection.places import Ends, Place, by_topic, ends_of, offsets_at

_LAST_BY_NAME = 9
"""The last version of OffsetCommit that names topics."""
_INACTIVE = frozenset({"Empty", "Dead"})


class Goal(Enum):
    """Where offsets are to go."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    TIME = "--to-datetime"


@dataclass(frozen=True, slots=True)
class Move:
    """Of one partition."""

    place: Place
    current: int | None
    """None: the group has committed none."""
    new: int
    is_cut: bool
    """It was to go beyond one end of the log, and goes to that end."""


async def planned(client: Client, group: str, wanted: Collection[Place], goal: Goal, number: int = 0) -> list[Move]:
    """What a reset would do. `number` is the offset, the offsets to go on by, or milliseconds since 1970. Raises
    `KafkaError` where the group has members, is none of consumers, or has no offset to shift."""
    await _refuse_active(client, group)
    current = await committed(client, group)
    ends = await ends_of(client, wanted)
    times = await offsets_at(client, wanted, max(0, number)) if goal is Goal.TIME else {}
    return [_move(place, current.get(place), ends[place], goal, times.get(place, number)) for place in sorted(wanted)]


def _move(place: Place, current: int | None, ends: Ends, goal: Goal, number: int) -> Move:
    match goal:
        case Goal.EARLIEST:
            new = ends.start
        case Goal.LATEST:
            new = ends.high_watermark
        case Goal.OFFSET:
            new = number
        case Goal.SHIFT:
            if current is None:
                name = f"{place[0]}-{place[1]}"
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has no committed offset that could be shifted")
            new = current + number
        case Goal.TIME:  # -1: nothing is as young
            new = number if number >= 0 else ends.high_watermark
        case _:
            assert_never(goal)
    inside = min(max(new, ends.start), ends.high_watermark)
    return Move(place, current, inside, is_cut=inside != new)


async def _refuse_active(client: Client, group: str) -> None:
    kind = next((one.kind for one in await listed(client) if one.name == group), None)
    if kind is not None and kind not in CONSUMERS:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"'{group}' is a {kind} group, and none of consumers")
    found = await described(client, group)
    if found is not None and (found.members or found.state not in _INACTIVE):
        raise _active(group, found.state)


def _active(group: str, state: str) -> KafkaError:
    sentence = f"offsets can only be reset if the group '{group}' is inactive, but the current state is {state}"
    return KafkaError(ErrorCode.NON_EMPTY_GROUP, sentence)


async def execute(client: Client, group: str, moves: Sequence[Move]) -> None:
    """Commit a plan. Raises `KafkaError` where a member has come meanwhile: then nothing of it was done."""
    new = {move.place: move.new for move in moves}
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=new[topic, number], committed_metadata=""
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(new).items()
    ]
    request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)

    async def attempt() -> None:
        coordinator = await client.coordinator(group, GROUP)
        version = min(_LAST_BY_NAME, coordinator.version_for(OffsetCommitRequest))
        answer: OffsetCommitResponse = await coordinator.ask(request, version)
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    raise _active(group, "with members")
                check(one.error_code, f"{topic.name}-{one.partition_index}")

    await client.patiently(attempt)


async def delete_offsets(client: Client, group: str, wanted: Collection[Place]) -> Mapping[Place, int]:
    """Forget what a group has committed; an error code for each partition. Raises `KafkaError` where there is no such
    group. Topics that its members have subscribed to are GROUP_SUBSCRIBED_TO_TOPIC (KIP-496)."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        )
        for topic, numbers in by_topic(sorted(wanted)).items()
    ]

    async def attempt() -> Mapping[Place, int]:
        coordinator = await client.coordinator(group, GROUP)
        answer: OffsetDeleteResponse = await coordinator.ask(OffsetDeleteRequest(group_id=group, topics=topics))
        check(answer.error_code, group)
        return {
            (topic.name, one.partition_index): one.error_code for topic in answer.topics for one in topic.partitions
        }

    return await client.patiently(attempt)


async def delete_group(client: Client, group: str) -> None:
    """With all its offsets. Raises `KafkaError`: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    async def attempt() -> None:
        coordinator = await client.coordinator(group, GROUP)
        answer: DeleteGroupsResponse = await coordinator.ask(DeleteGroupsRequest(groups_names=[group]))
        check(answer.results[0].error_code, f"Group '{group}' could not be deleted")

    await client.patiently(attempt)
