"""DescribeUserScramCredentials (50), AlterUserScramCredentials (51): the users of SCRAM (KIP-554)."""

from collections import Counter
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_cluster import ALTER_USERS, DESCRIBE_USERS
from broker.api.services import WithCluster, WithEnvironment
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.scram import AlteredUser, by_user, described
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST, TOO_LARGE
from protocol.errors import ErrorCode
from protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


class ScramServices(WithCluster, WithEnvironment, Protocol):
    """What these handlers use of the node."""


@handles(
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    versions=range(0, 1),
    guard=DESCRIBE_USERS,
)
async def describe_user_scram_credentials(
    services: ScramServices, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Name users with the mechanisms they have credentials for, and the iterations of these. Answered at once.

    No users (null, or an empty list) means all. What is kept of a password is never returned.
    """
    users, time_slice = services.cluster.image.scram_users, services.environment.time_slice()
    times_named = Counter(one.name for one in request.users or ()) or Counter(users.names())
    results = await time_slice.each(lambda name: described(users, name, times_named[name]), list(times_named))
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


@handles(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, versions=range(0, 1), guard=ALTER_USERS)
async def alter_user_scram_credentials(
    services: ScramServices, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Make, change and remove credentials of users. Answered when that is durable; it holds for the next connection.

    The client salts the password and iterates (KIP-554), the broker never sees it. Each user stands for itself, and is
    named once: two mechanisms are two requests.
    """
    altered = by_user((*request.deletions, *request.upsertions))
    if len(request.deletions) + len(request.upsertions) > MOST_RECORDS_PER_REQUEST:
        return _refused(altered, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    try:
        results = await services.cluster.ask_in_slices(
            altered, lambda machine, ticket, rest, spent: machine.alter_scram_users(ticket, rest, spent)
        )
    except CoordinatorError as refused:
        return _refused(altered, refused.error, None)
    return AlterUserScramCredentialsResponse(results=results)


def _refused(users: list[AlteredUser], error: ErrorCode, message: str | None) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=one.name, error_code=error, error_message=message) for one in users
        ]
    )
