"""What the APIs need that are about disks, about which brokers have what, and about members of the cluster."""

from collections.abc import Awaitable, Callable
from typing import Any

from broker.api.permissions.need import Call, Guard, Need, open_to_all, whole
from broker.api.permissions.of_cluster import CLUSTER_MESSAGE, of_cluster
from broker.process.time_slice import TimeSlice
from protocol.acls import Operation
from protocol.errors import ErrorCode
from protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsResponse,
)
from protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from protocol.messages.quorum import (
    AddRaftVoterResponse,
    DescribeQuorumResponse,
    RemoveRaftVoterResponse,
    UnregisterBrokerResponse,
)

Refusal = Callable[[Any, ErrorCode, str | None, TimeSlice], Awaitable[Any]]
"""Makes the answer to a request all of which is refused for one reason, in slices."""


def _whole(need: Need, refused: Refusal) -> Guard:
    """All or nothing, where the answer may have an error for each element of the request."""
    error = need.error
    assert error is not None

    async def answer(call: Call, request: Any) -> Any:
        if call.permissions.have(need):
            return await call.answer(request)
        return await refused(request, error, CLUSTER_MESSAGE, call.time_slice())

    return Guard((need,), answer)


# -- disks -----------------------------------------------------------------------------------------------------------


async def _moves_refused(
    request: AlterReplicaLogDirsRequest, error: ErrorCode, message: str | None, time_slice: TimeSlice
) -> AlterReplicaLogDirsResponse:
    results = []
    for topic in [topic for folder in request.dirs for topic in folder.topics]:
        partitions = await time_slice.each(
            lambda index: AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error), topic.partitions
        )
        results.append(AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=partitions))
    return AlterReplicaLogDirsResponse(results=results)


DESCRIBE_LOG_DIRS = whole(
    of_cluster(Operation.DESCRIBE),
    lambda _, error: DescribeLogDirsResponse(error_code=error, results=[]),
)
ALTER_REPLICA_LOG_DIRS = _whole(of_cluster(Operation.ALTER), _moves_refused)


# -- leaders and replicas --------------------------------------------------------------------------------------------


async def elections_refused(
    request: ElectLeadersRequest, error: ErrorCode, message: str | None, time_slice: TimeSlice
) -> ElectLeadersResponse:
    """All partitions that are named are refused."""
    results: list[ReplicaElectionResult] = []
    for topic in request.topic_partitions or ():
        partitions = await time_slice.each(
            lambda index: PartitionResult(partition_id=index, error_code=error, error_message=message),
            topic.partitions,
        )
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=partitions))
    return ElectLeadersResponse(error_code=error, replica_election_results=results)


async def reassignments_refused(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode, message: str | None, time_slice: TimeSlice
) -> AlterPartitionReassignmentsResponse:
    """All partitions that are named are refused."""
    topics: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        partitions = await time_slice.each(
            lambda one: ReassignablePartitionResponse(
                partition_index=one.partition_index, error_code=error, error_message=message
            ),
            topic.partitions,
        )
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(error_code=error, error_message=message, responses=topics)


ELECT_LEADERS = _whole(of_cluster(Operation.ALTER), elections_refused)
ALTER_PARTITION_REASSIGNMENTS = _whole(of_cluster(Operation.ALTER), reassignments_refused)
LIST_PARTITION_REASSIGNMENTS = whole(
    of_cluster(Operation.DESCRIBE),
    lambda _, error: ListPartitionReassignmentsResponse(error_code=error, error_message=CLUSTER_MESSAGE, topics=[]),
)


# -- members of the cluster ------------------------------------------------------------------------------------------

DESCRIBE_QUORUM = whole(
    of_cluster(Operation.DESCRIBE),
    lambda _, error: DescribeQuorumResponse(error_code=error, error_message=CLUSTER_MESSAGE, topics=[]),
)
UNREGISTER_BROKER = whole(
    of_cluster(Operation.ALTER),
    lambda _, error: UnregisterBrokerResponse(error_code=error, error_message=CLUSTER_MESSAGE),
)
ADD_RAFT_VOTER = whole(
    of_cluster(Operation.ALTER),
    lambda _, error: AddRaftVoterResponse(error_code=error, error_message=CLUSTER_MESSAGE),
)
REMOVE_RAFT_VOTER = whole(
    of_cluster(Operation.ALTER),
    lambda _, error: RemoveRaftVoterResponse(error_code=error, error_message=CLUSTER_MESSAGE),
)
TELEMETRY = open_to_all("Every client may tell of itself, as in Kafka.")
