"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): which brokers have and lead
partitions. A partition has one replica, the node that leads it: where this node is alone what is asked for is there
already, or cannot be; of several nodes another one may be given it.

Sentences as a running Kafka 4.3 gives them.
"""

from collections.abc import Sequence, Set
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_administration import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    elections_refused,
    reassignments_refused,
)
from broker.api.services import WithCluster, WithEnvironment, WithNodes, WithTopics
from broker.coordination.coordinators import CoordinatorError
from protocol.errors import ErrorCode
from protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)

ELECTION_TYPES = (0, 1)
"""Of the preferred leader, and an unclean one."""
NOT_NEEDED = "Leader election not needed for topic partition."
GIVEN_AT_ONCE = 500
"""Partitions that are given in one turn: a request may name any number."""
Given = tuple[bytes, int, int]
"""The topic id and the index of a partition, and the node that gets it."""


class PlacementServices(WithCluster, WithEnvironment, WithNodes, WithTopics, Protocol):
    """What these handlers use of the node."""


@handles(ElectLeadersRequest, ElectLeadersResponse, versions=range(0, 3), guard=ELECT_LEADERS)
async def elect_leaders(
    services: PlacementServices, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect leaders of partitions: each has the only one there is (ELECTION_NOT_NEEDED). Answered at once.

    No partitions (null) means all that need an election, of which each topic has none. A `timeout_ms` that is over
    before it begins is REQUEST_TIMED_OUT. v1: preferred leaders (0) or unclean elections (1, KIP-460); another type is
    INVALID_REQUEST.
    """
    time_slice = services.environment.time_slice()
    wanted = request.topic_partitions
    if wanted is not None and not wanted:
        return ElectLeadersResponse(replica_election_results=[])
    if request.timeout_ms <= 0:
        return await elections_refused(request, ErrorCode.REQUEST_TIMED_OUT, None, time_slice)
    if request.election_type not in ELECTION_TYPES:
        message = f"Unknown election type {request.election_type}"
        return await elections_refused(request, ErrorCode.INVALID_REQUEST, message, time_slice)
    results: list[ReplicaElectionResult] = []
    if wanted is None:
        for topic in services.topics.all():
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=[]))
            await time_slice.give_way()
        return ElectLeadersResponse(replica_election_results=results)
    for one in wanted:
        found = services.topics.by_name(one.topic)
        count = None if found is None else len(found.partitions)

        def result_of(index: int, name: str = one.topic, count: int | None = count) -> PartitionResult:
            error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
            if count is not None:
                message = f"No such partition as {name}-{index}"
                if 0 <= index < count:
                    error, message = ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED
            return PartitionResult(partition_id=index, error_code=error, error_message=message)

        results.append(
            ReplicaElectionResult(topic=one.topic, partition_result=await time_slice.each(result_of, one.partitions))
        )
    return ElectLeadersResponse(replica_election_results=results)


@handles(
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    versions=range(0, 2),
    guard=ALTER_PARTITION_REASSIGNMENTS,
)
async def alter_partition_reassignments(
    services: PlacementServices, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Give partitions other replicas (KIP-455): of several nodes another one, which leads it from then on. Answered
    when that is decided: a reassignment is never under way.

    A list of several, or of a node that does not serve, is INVALID_REPLICA_ASSIGNMENT; null, which ends a reassignment,
    finds none. A `timeout_ms` that is over before it begins is REQUEST_TIMED_OUT. v1: whether the number of replicas
    may change, which it cannot.
    """
    if not request.topics:  # In Kafka's words, whatever else is in the request.
        return AlterPartitionReassignmentsResponse(error_message="", responses=[])
    time_slice = services.environment.time_slice()
    if request.timeout_ms <= 0:
        return await reassignments_refused(request, ErrorCode.REQUEST_TIMED_OUT, None, time_slice)
    if not (services.nodes.is_alone or services.cluster.leads):
        return await reassignments_refused(request, ErrorCode.NOT_CONTROLLER, None, time_slice)
    known = {node.node_id for node in services.nodes.reached(context.connection.listener)}
    topics: list[ReassignableTopicResponse] = []
    given: list[Given] = []
    for one in request.topics:
        found = services.topics.by_name(one.name)
        count = None if found is None else len(found.partitions)
        topic_id = bytes(16) if found is None else found.topic_id

        def result_of(
            wanted: ReassignablePartition, name: str = one.name, count: int | None = count, topic_id: bytes = topic_id
        ) -> ReassignablePartitionResponse:
            leader = services.nodes.leader(topic_id, wanted.partition_index)[0]
            error, message = _reassigned(wanted, name, count, known)
            if wanted.replicas and error is ErrorCode.NONE and wanted.replicas != [leader]:
                given.append((topic_id, wanted.partition_index, wanted.replicas[0]))
            return ReassignablePartitionResponse(
                partition_index=wanted.partition_index, error_code=error, error_message=message
            )

        partitions = await time_slice.each(result_of, one.partitions)
        topics.append(ReassignableTopicResponse(name=one.name, partitions=partitions))
    try:
        for first in range(0, len(given), GIVEN_AT_ONCE):
            some = given[first : first + GIVEN_AT_ONCE]
            await services.cluster.ask(lambda machine, ticket: machine.elect(ticket, some))  # noqa: B023
    except CoordinatorError as refused:
        return await reassignments_refused(request, refused.error, None, time_slice)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, responses=topics
    )


def _reassigned(
    wanted: ReassignablePartition, name: str, count: int | None, known: Set[int]
) -> tuple[ErrorCode, str | None]:
    """What comes of one. `count` partitions has the topic, None where there is none; `known` are the nodes."""
    index = wanted.partition_index
    if count is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
    if not 0 <= index < count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
    if wanted.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    problem = _problem(wanted.replicas, known)
    return (ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem) if problem else (ErrorCode.NONE, None)


def _problem(replicas: Sequence[int], known: Set[int]) -> str:
    """Why a partition cannot have these replicas; empty where it can."""
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    ordered = sorted(replicas)
    if ordered[0] in known and ordered.count(ordered[0]) > 1:
        return f"The manual partition assignment includes the broker {ordered[0]} more than once."
    strange = next((replica for replica in ordered if replica not in known), None)
    if strange is not None:
        return f"The manual partition assignment includes broker {strange}, but no such broker is registered."
    return "" if len(ordered) == 1 else "A partition has one replica, the node that leads it."


@handles(
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    versions=range(0, 1),
    guard=LIST_PARTITION_REASSIGNMENTS,
)
def list_partition_reassignments(
    services: PlacementServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the reassignments that are under way, of all topics or of some: there are none. Answered at once."""
    return ListPartitionReassignmentsResponse(topics=[])
