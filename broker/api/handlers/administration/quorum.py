"""DescribeQuorum (55), UnregisterBroker (64), AddRaftVoter (80), RemoveRaftVoter (81): the members of the cluster, and
who votes, which is the controller.

Sentences as a running Kafka 4.3 gives them.
"""

from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_administration import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    REMOVE_RAFT_VOTER,
    UNREGISTER_BROKER,
)
from broker.api.services import WithCluster, WithEndpoints, WithEnvironment
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.coordinator import Forgotten
from protocol.errors import ErrorCode
from protocol.internal_topics import CLUSTER_METADATA
from protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    ReplicaState,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

NOT_HOSTED = "This server does not host this topic-partition."
NOT_LEADER = (
    "For requests intended only for the leader, this error indicates that the broker is not the current leader."
)
NO_DIRECTORY = bytes(16)
NOT_KNOWN = -1


class QuorumServices(WithCluster, WithEndpoints, WithEnvironment, Protocol):
    """What these handlers use of the node."""

    @property
    def cluster_id(self) -> str: ...


@handles(DescribeQuorumRequest, DescribeQuorumResponse, versions=range(0, 3), guard=DESCRIBE_QUORUM)
async def describe_quorum(
    services: QuorumServices, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe who votes on the metadata log and who follows it. The only voter is the node that leads it, the
    controller; of several nodes the others that serve are observers, and how far they have followed is not known (-1):
    they read the log in the store. Answered at once, by the controller whichever node is asked.

    Whoever asks for anything but partition 0 of `__cluster_metadata`, once, is told of all that it is not hosted;
    NOT_LEADER_OR_FOLLOWER of that where nobody is known to be the controller just now. v1: when the voter last had all
    there is (now); v2: messages, directories of observers, and how the voter is reached: as clients of the listener
    that it was asked through reach it, which is that between nodes where another node was asked first. There is no
    listener for controllers.
    """
    asked = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
    if asked == [(CLUSTER_METADATA, [0])]:
        return _described(services, context)
    time_slice = services.environment.time_slice()
    topics: list[DescribeQuorumResponseTopicData] = []
    for topic in request.topics:
        partitions = await time_slice.each(_not_hosted, topic.partitions)
        topics.append(DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    return DescribeQuorumResponse(error_message="", topics=topics)


def _described(services: QuorumServices, context: RequestContext) -> DescribeQuorumResponse:
    if not services.cluster.leads:
        refused = _refused(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, NOT_LEADER)
        topics = [DescribeQuorumResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[refused])]
        return DescribeQuorumResponse(error_message="", topics=topics)
    log, now_ms = services.cluster.partition, services.environment.wall_ms()
    voter = ReplicaState(
        replica_id=services.node_id,
        log_end_offset=log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_message="",
        leader_id=services.node_id,
        leader_epoch=services.cluster.epoch,
        high_watermark=log.high_watermark,
        current_voters=[voter],
        observers=[] if services.nodes.is_alone else _observers(services),
    )
    endpoint = services.endpoints[context.connection.listener]
    listener = DescribeQuorumResponseListener(name=context.connection.listener, host=endpoint.host, port=endpoint.port)
    return DescribeQuorumResponse(
        error_message="",
        topics=[DescribeQuorumResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        nodes=[DescribeQuorumResponseNode(node_id=services.node_id, listeners=[listener])],
    )


def _observers(services: QuorumServices) -> list[ReplicaState]:
    """Kafka leaves out who has not fetched for five minutes; here one is out that is fenced."""
    observers: list[ReplicaState] = []
    for node_id, one in sorted(services.cluster.image.brokers.items()):
        if node_id != services.node_id and not one.fenced:
            directories = one.registration.log_dirs
            directory = directories[0] if directories else NO_DIRECTORY
            observers.append(ReplicaState(replica_id=node_id, replica_directory_id=directory, log_end_offset=NOT_KNOWN))
    return observers


def _not_hosted(one: DescribeQuorumRequestPartitionData) -> DescribeQuorumResponsePartitionData:
    return _refused(one.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)


def _refused(index: int, error: ErrorCode, message: str) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=index,
        error_code=error,
        error_message=message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


@handles(UnregisterBrokerRequest, UnregisterBrokerResponse, versions=range(0, 1), guard=UNREGISTER_BROKER)
async def unregister_broker(
    services: QuorumServices, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Have a broker that is gone for good forgotten. Answered when that is on the disk.

    One that lives is not forgotten: INVALID_REQUEST. Kafka takes it, and has partitions without a leader until its next
    start. Who is not known: BROKER_ID_NOT_REGISTERED.
    """
    node_id = request.broker_id
    try:
        forgotten = await services.cluster.ask(lambda machine, ticket: machine.forget_broker(ticket, node_id))
    except CoordinatorError as problem:
        return UnregisterBrokerResponse(error_code=problem.error, error_message=None)
    error, message = ErrorCode.NONE, None
    if forgotten is Forgotten.NOT_KNOWN:
        error, message = ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered"
    elif forgotten is Forgotten.LIVES:
        others = any(not one.fenced for other, one in services.cluster.image.brokers.items() if other != node_id)
        why = "serves" if others else "is this cluster's only one"
        error, message = ErrorCode.INVALID_REQUEST, f"Broker {node_id} {why} and cannot be unregistered."
    return UnregisterBrokerResponse(error_code=error, error_message=message)


@handles(AddRaftVoterRequest, AddRaftVoterResponse, versions=range(0, 2), guard=ADD_RAFT_VOTER)
def add_raft_voter(
    services: QuorumServices, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    """Have another node vote on the metadata log (KIP-853): refused, as by a Kafka whose voters are fixed by
    `controller.quorum.voters`. Answered at once.

    INCONSISTENT_CLUSTER_ID for another cluster id than ours; INVALID_REQUEST where no voter is named (an id below 0, a
    directory of 0) or no listener of it; else UNSUPPORTED_VERSION. v1: whether to wait, for which there is nothing.
    """
    error, message = _voter_refused(services, "Add", request)
    if error is ErrorCode.UNSUPPORTED_VERSION and not request.listeners:
        # Kafka asks for that of its controllers' listener, of which there is none here.
        error, message = ErrorCode.INVALID_REQUEST, "Add voter request didn't include an endpoint"
    return AddRaftVoterResponse(error_code=error, error_message=message)


@handles(RemoveRaftVoterRequest, RemoveRaftVoterResponse, versions=range(0, 1), guard=REMOVE_RAFT_VOTER)
def remove_raft_voter(
    services: QuorumServices, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Have a node vote on the metadata log no more (KIP-853): refused, as AddRaftVoter is. Answered at once."""
    error, message = _voter_refused(services, "Remove", request)
    return RemoveRaftVoterResponse(error_code=error, error_message=message)


def _voter_refused(
    services: QuorumServices, verb: str, request: AddRaftVoterRequest | RemoveRaftVoterRequest
) -> tuple[ErrorCode, str]:
    if request.cluster_id is not None and request.cluster_id != services.cluster_id:
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{services.cluster_id}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, message
    if request.voter_id < 0 or request.voter_directory_id == NO_DIRECTORY:
        return ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
    doing = f"{verb.lower().removesuffix('e')}ing"
    message = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    return ErrorCode.UNSUPPORTED_VERSION, message
