"""Groups: which there are, who is in them, what they have committed."""

from collections.abc import Mapping
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
)
from protocol.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tallystick.client.client import GROUP, Client
from tallystick.client.errors import UnsupportedByBroker, check
from tallystick.inspection.assignments import assigned
from tallystick.inspection.places import Place

CONSUMER = "consumer"
_CLASSIC = "classic"
CONSUMERS = frozenset({CONSUMER, _CLASSIC})
"""Kinds of groups that consumers make, and commit offsets in."""
_BY_GROUP = range(8, 10)
"""Versions of OffsetFetch that speak of groups, and of topics by name."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group, as its coordinator lists it."""

    name: str
    kind: str
    """classic, consumer, share or streams."""
    state: str
    """"" where the broker is older than 2.6."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member. `epoch` and `target` are known of the consumer protocol alone (KIP-848)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None = None
    has: frozenset[Place] = frozenset()
    target: frozenset[Place] = frozenset()


@dataclass(frozen=True, slots=True)
class Group:
    """One group of consumers."""

    name: str
    kind: str
    state: str
    assignor: str
    members: tuple[Member, ...]
    epoch: int | None = None
    target_epoch: int | None = None
    """That its target assignment was made for."""


async def listed(client: Client) -> list[ListedGroup]:
    """What all coordinators list, by name."""

    async def attempt() -> list[ListedGroup]:
        found = []
        for broker in (await client.metadata([])).brokers:
            answer: ListGroupsResponse = await (await client.node(broker.node_id)).ask(ListGroupsRequest())
            check(answer.error_code)  # a coordinator that still loads lists nothing at all
            found += [
                ListedGroup(one.group_id, one.group_type.lower() or _CLASSIC, one.group_state) for one in answer.groups
            ]
        return sorted(found, key=lambda one: one.name)

    return await client.patiently(attempt)


async def not_of_consumers(client: Client, name: str) -> str:
    """Why there is no group of consumers of this name, in a sentence."""
    kinds = {one.name: one.kind for one in await listed(client)}
    if kinds.get(name, _CLASSIC) in CONSUMERS:
        return f"there is no group of consumers {name!r}"
    return f"{name!r} is a {kinds[name]} group, and no group of consumers: Kafka's kafka-{kinds[name]}-groups shows it"


async def described(client: Client, name: str) -> Group | None:
    """A group of consumers, of either protocol; None where there is none of this name."""
    try:
        found = await _of_consumers(client, name)
    except UnsupportedByBroker:  # older than KIP-848
        found = None
    return found or await _classic(client, name)


async def _of_consumers(client: Client, name: str) -> Group | None:
    async def attempt() -> Group | None:
        coordinator = await client.coordinator(name, GROUP)
        answer: ConsumerGroupDescribeResponse = await coordinator.ask(ConsumerGroupDescribeRequest(group_ids=[name]))
        (one,) = answer.groups
        if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # or it is of another kind
            return None
        check(one.error_code, one.error_message or name)
        members = (
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                epoch=member.member_epoch,
                has=_places(member.assignment),
                target=_places(member.target_assignment),
            )
            for member in one.members
        )
        epochs = one.group_epoch, one.assignment_epoch
        return Group(name, CONSUMER, one.group_state, one.assignor_name, tuple(members), *epochs)

    return await client.patiently(attempt)


def _places(assignment: DescribedAssignment) -> frozenset[Place]:
    return frozenset((topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions)


async def _classic(client: Client, name: str) -> Group | None:
    async def attempt() -> Group | None:
        coordinator = await client.coordinator(name, GROUP)
        answer: DescribeGroupsResponse = await coordinator.ask(DescribeGroupsRequest(groups=[name]))
        (one,) = answer.groups
        if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND or one.group_state == "Dead":  # before and since KIP-1043
            return None
        check(one.error_code, one.error_message or name)
        members = (
            Member(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                has=assigned(member.member_assignment) if one.protocol_type == CONSUMER else frozenset(),
            )
            for member in one.members
        )
        return Group(name, _CLASSIC, one.group_state, one.protocol_data, tuple(members))

    return await client.patiently(attempt)


async def committed(client: Client, name: str) -> Mapping[Place, int]:
    """The committed offsets of a group; without those that are pending in a transaction."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None)])

    async def attempt() -> Mapping[Place, int]:
        coordinator = await client.coordinator(name, GROUP)
        version = min(_BY_GROUP[-1], coordinator.version_for(OffsetFetchRequest))
        if version not in _BY_GROUP:
            raise UnsupportedByBroker("OffsetFetch by group")
        answer: OffsetFetchResponse = await coordinator.ask(request, version)
        (found,) = answer.groups
        check(found.error_code, name)
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in found.topics
            for one in topic.partitions
            if one.committed_offset >= 0 and not one.error_code
        }

    return await client.patiently(attempt)
