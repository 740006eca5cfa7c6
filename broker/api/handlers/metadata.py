"""Metadata (3), ApiVersions (18), DescribeCluster (60): which versions we speak, which brokers and topics there are."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.described_topics import DescribedTopics
from broker.api.permissions.of_cluster import API_VERSIONS, DESCRIBE_CLUSTER
from broker.api.permissions.of_topics import METADATA
from broker.api.services import WithCluster, WithConfig, WithEndpoints, WithEnvironment, WithEpoch, WithTopics
from broker.coordination.across_nodes.nodes import ReachedNode
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from coordinator.cluster.features import SUPPORTED_FEATURES
from coordinator.cluster.topic_rules import Refused, check_name
from protocol.errors import ErrorCode
from protocol.internal_topics import INTERNAL_TOPICS
from protocol.messages.metadata import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FinalizedFeatureKey,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
    SupportedFeatureKey,
)

NO_ID = bytes(16)
NOT_REQUESTED = -(1 << 31)
IDS_SINCE = 12
"""Before, a request that names an id, or no name, is refused as a whole."""
TOPIC_OPERATIONS = 3576
"""Every operation on a topic, as bits: what Kafka answers where nothing is forbidden."""
CLUSTER_OPERATIONS = 8096
"""Every operation on the cluster."""
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
NOT_MADE_NOW = (ErrorCode.POLICY_VIOLATION, ErrorCode.NOT_CONTROLLER)
"""Why a missing topic is not made: there are too many at once, or no node controls. Clients know neither from here."""
BROKERS, CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster."""


class MetadataServices(WithCluster, WithConfig, WithEndpoints, WithEnvironment, WithEpoch, WithTopics, Protocol):
    """What these handlers use of the node."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def described_topics(self) -> DescribedTopics: ...

    @property
    def versions(self) -> Mapping[int, range]: ...


@handles(ApiVersionsRequest, ApiVersionsResponse, versions=range(0, 5), guard=API_VERSIONS)
def api_versions(
    services: MetadataServices, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """The APIs we speak, with their versions, and the cluster's features. Answered at once.

    A version we do not know never gets here: the dispatcher answers version 0 with error 35 (KIP-511). v3: the client
    says its name (INVALID_REQUEST for one that is none); features as tagged fields. v4: features whose lowest level
    is 0 are listed too; older clients stumble over them (KAFKA-17011).
    """
    version = context.api_version
    if version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(SOFTWARE_NAME.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
        context.connection.software_name, context.connection.software_version = names
    if context.connection.gate is not None:
        context.connection.gate.greeted()
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=served.start, max_version=served.stop - 1)
            for key, served in sorted(services.versions.items())
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
            if low > 0 or version >= 4
        ],
        finalized_features_epoch=services.cluster.finalized_features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in services.cluster.finalized_features.items()
        ],
    )


@handles(MetadataRequest, MetadataResponse, versions=range(0, 14), guard=METADATA)
async def metadata(services: MetadataServices, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Describe brokers and topics. Answered at once, unless a topic has to be made first.

    A topic that does not exist is made if the client and `auto.create.topics.enable` allow it; the answer comes when
    it can be used, instead of LEADER_NOT_AVAILABLE, but within seconds. v0: no topics means all of them; later null
    does, and none means none. v4: the client may forbid making topics. v10: topic ids in the answer; v12: topics
    asked for by id, and a bad id is given back as it came; names beside ids are passed over. v8–v10: operations
    allowed on the cluster. Of several nodes librdkafka hears for half a minute of one that has gone, which leads
    nothing (decision 0045).
    """
    time_slice = services.environment.time_slice()
    topics: list[MetadataResponseTopic] = []
    if request.topics is None or (context.api_version == 0 and not request.topics):
        listed, reached = _told_of(services, context)
        for topic in services.topics.all():
            topics.append(await _described(services, topic, request, reached, time_slice))
            await time_slice.give_way()
        return _answer(services, request, listed, topics)
    named: dict[tuple[bytes, str | None], MetadataRequestTopic] = {}
    by_id = nameless = False
    for one in request.topics:
        named[one.topic_id, one.name] = one
        by_id = by_id or one.topic_id != NO_ID
        nameless = nameless or one.name is None
        await time_slice.give_way()
    if (by_id or nameless) and context.api_version < IDS_SINCE:
        refused = await time_slice.each(_refused_whole, request.topics)
        return MetadataResponse(brokers=[], topics=refused)
    # Who asks by ids is told of these alone, as in Kafka.
    wanted = [one for one in named.values() if one.topic_id != NO_ID or not by_id]
    missing = await _missing(services, context, request, wanted, time_slice)
    errors = await services.topics.made_on_the_way(missing) if missing else {}
    listed, reached = _told_of(services, context)
    for one in wanted:
        topics.append(await _look_up(services, request, one, errors, reached, time_slice))
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return _answer(services, request, listed, topics)


def _told_of(services: MetadataServices, context: RequestContext) -> tuple[Sequence[ReachedNode], Set[int]]:
    """The nodes that a client hears of, and those of them that serve: all, but for librdkafka, which waits for good for
    a coordinator that it hears no more of (confluentinc/librdkafka 5511) and hears for a while of those that served."""
    connection = context.connection
    software = f"{connection.software_name} {connection.software_version}"
    is_librdkafka = "rdkafka" in software or software.startswith("confluent-kafka")
    nodes = services.nodes
    listed = nodes.listed(connection.listener) if is_librdkafka else nodes.reached(connection.listener)
    return listed, frozenset([node.node_id for node in listed if node.serves])


async def _missing(
    services: MetadataServices,
    context: RequestContext,
    request: MetadataRequest,
    wanted: Iterable[MetadataRequestTopic],
    time_slice: TimeSlice,
) -> list[str]:
    """Names of topics that are to be made, all at once: together they have the limits of one CreateTopics."""
    allowed = request.allow_auto_topic_creation or context.api_version < 4
    if not allowed or not services.config.get_bool("auto.create.topics.enable"):
        return []
    missing: list[str] = []
    for topic in wanted:
        name = topic.name
        if name is not None and topic.topic_id == NO_ID and services.topics.by_name(name) is None:
            if _name_error(name) is ErrorCode.NONE and _may_make(services, context):
                missing.append(name)
            if time_slice.spent():
                await time_slice.wait_for_turn()
    return missing


def _may_make(services: MetadataServices, context: RequestContext) -> bool:
    """Whether the client's quota lets one more topic be made. It is not silenced for one that is not: it is told that
    there is no such topic, and asks again, as with Kafka."""
    charge = context.charge
    return charge is None or charge.may_make(services.config.get_int("num.partitions"))


async def _look_up(
    services: MetadataServices,
    request: MetadataRequest,
    wanted: MetadataRequestTopic,
    errors: Mapping[str, ErrorCode],
    reached: Set[int],
    time_slice: TimeSlice,
) -> MetadataResponseTopic:
    name = wanted.name
    if wanted.topic_id != NO_ID:
        topic_of_id = services.topics.by_id(wanted.topic_id)
        if topic_of_id is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id, partitions=[]
            )
        return await _described(services, topic_of_id, request, reached, time_slice)
    if name is None:
        return _refused_whole(wanted)
    topic = services.topics.by_name(name)
    if topic is not None:
        return await _described(services, topic, request, reached, time_slice)
    error = _name_error(name) or errors.get(name, ErrorCode.NONE)
    if error in (ErrorCode.NONE, *NOT_MADE_NOW):  # as unknown as before
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _refused(request, error, name)


def _refused_whole(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """Nothing is looked up, and nothing is said of what may be done."""
    return MetadataResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
    )


def _refused(request: MetadataRequest, error: ErrorCode, name: str | None) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=_topic_operations(request),
    )


def _name_error(name: str) -> ErrorCode:
    try:
        check_name(name)
    except Refused as refused:
        return refused.error
    return ErrorCode.NONE


async def _described(
    services: MetadataServices,
    topic: Topic,
    request: MetadataRequest,
    reached: Set[int],
    time_slice: TimeSlice,
) -> MetadataResponseTopic:
    return await services.described_topics.of(
        topic,
        nodes=services.nodes,
        reached=reached,
        operations=_topic_operations(request),
        time_slice=time_slice,
    )


def _topic_operations(request: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED


def _answer(
    services: MetadataServices,
    request: MetadataRequest,
    listed: Sequence[ReachedNode],
    topics: list[MetadataResponseTopic],
) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node.node_id, host=node.endpoint.host, port=node.endpoint.port, rack=node.rack)
        for node in listed
    ]
    with_operations = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=brokers,
        cluster_id=services.cluster_id,
        controller_id=services.nodes.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_operations else NOT_REQUESTED,
    )


@handles(DescribeClusterRequest, DescribeClusterResponse, versions=range(0, 3), guard=DESCRIBE_CLUSTER)
def describe_cluster(
    services: MetadataServices, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the brokers of the cluster (KIP-700). Answered at once.

    v1: the kind of endpoint that is wanted; there are none of controllers here (MISMATCHED_ENDPOINT_TYPE). v2: fenced
    brokers: other nodes that have served, and do not now.
    """
    if request.endpoint_type != BROKERS:
        if request.endpoint_type == CONTROLLERS:
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        else:
            error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            message = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=error, error_message=message, cluster_id="", brokers=[])
    with_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.nodes.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id, host=node.endpoint.host, port=node.endpoint.port, rack=node.rack
            )
            for node in services.nodes.reached(context.connection.listener)
        ]
        + (_fenced(services, context.connection.listener) if request.include_fenced_brokers else []),
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_operations else NOT_REQUESTED,
    )


def _fenced(services: MetadataServices, listener: str) -> list[DescribeClusterBroker]:
    """As they were reached when they served."""
    return [
        DescribeClusterBroker(
            broker_id=node_id, host=one.host, port=one.port, rack=found.registration.rack, is_fenced=True
        )
        for node_id, found in services.cluster.image.brokers.items()
        for one in found.registration.end_points
        if found.fenced and one.name == listener
    ]
