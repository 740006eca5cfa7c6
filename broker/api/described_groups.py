"""Descriptions of groups that the broker itself leads: what ConsumerGroupDescribe, ShareGroupDescribe and
StreamsGroupDescribe have in common.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from broker.api.services import WithCluster, WithEnvironment
from broker.coordination.coordinators import CoordinatorError
from broker.process.time_slice import TimeSlice
from protocol.errors import ErrorCode

ALL_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe configs, alter configs."""


class DescribeRequest(Protocol):
    group_ids: list[str]
    include_authorized_operations: bool


class DescribedGroup(Protocol):
    error_code: int
    authorized_operations: int


class Services(WithCluster, WithEnvironment, Protocol):
    """What this uses of the node."""


G = TypeVar("G", bound=DescribedGroup)
M = TypeVar("M")


async def described_groups(
    services: Services,
    request: DescribeRequest,
    *,
    feature: str,
    refused: Callable[[str, ErrorCode], G],
    described: Callable[[str, TimeSlice], Awaitable[G]],
) -> list[G]:
    """Each group once, in the order of the request. `feature` is the one that the protocol needs, `refused` makes what
    stands for a group that cannot be described, `described` raises `CoordinatorError` for it."""
    is_on = services.cluster.finalized_features.get(feature, 0) > 0
    time_slice = services.environment.time_slice()
    groups = []
    for group_id in dict.fromkeys(request.group_ids):
        if not is_on:
            group = refused(group_id, ErrorCode.UNSUPPORTED_VERSION)
        elif not group_id:
            group = refused(group_id, ErrorCode.INVALID_GROUP_ID)
        else:
            try:
                group = await described(group_id, time_slice)
            except CoordinatorError as error:
                group = refused(group_id, error.error)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ALL_OPERATIONS
        groups.append(group)
        await time_slice.give_way()
    return groups


async def described_members(members: Sequence[Callable[[], M]], time_slice: TimeSlice) -> list[M]:
    """The members of a `Shown` group: there may be thousands, and others have their turns."""
    return await time_slice.each(lambda describe: describe(), members)
