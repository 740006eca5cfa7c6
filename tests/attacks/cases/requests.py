"""Attacks with requests that are large, that repeat themselves, or that request far more than their size."""

import os
from contextlib import suppress
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from tests.attacks import wire
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.attacks.wire import Hangup, Link
from tests.harness.framing import request_frame

BROKER_RESOURCE = 4


def _answered_or_closed(trial: Trial, link: Link, message: object, version: int) -> Any:
    """The response, or None where the broker closes the connection, which is a right answer to what is too large."""
    try:
        return link.request(message, version)
    except Hangup:
        trial.note("the connection was closed")
        return None


def _unknown_partitions(count: int, **session: int) -> FetchRequest:
    partitions = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(count)]
    topics = [FetchTopic(topic="no-such-topic", partitions=partitions)]
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, **session)


@case(short={"partitions": 10_000}, long={"partitions": 200_000}, peak_mb=150)
def fetch_of_unknown_partitions(trial: Trial, *, partitions: int) -> None:
    """One Fetch of partitions that do not exist."""
    _answered_or_closed(trial, trial.connect(), _unknown_partitions(partitions), 11)


@case(short={"partitions": 10_000}, long={"partitions": 200_000}, peak_mb=150)
def produce_of_nothing(trial: Trial, *, partitions: int) -> None:
    """One Produce to unknown partitions, without records."""
    data = [PartitionProduceData(index=number, records=None) for number in range(partitions)]
    topics = [TopicProduceData(name="no-such-topic", partition_data=data)]
    _answered_or_closed(trial, trial.connect(), ProduceRequest(acks=1, timeout_ms=1, topic_data=topics), 8)


@case(short={"ids": 5_000}, long={"ids": 100_000}, peak_mb=150)
def description_of_unknown_transactions(trial: Trial, *, ids: int) -> None:
    """One DescribeTransactions of ids that nobody has."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "some-id", 1)
    request = DescribeTransactionsRequest(transactional_ids=[f"id-{number}" for number in range(ids)])
    _answered_or_closed(trial, link, request, 0)


@case(short={"repeats": 100}, long={"repeats": 1_000}, peak_mb=150)
def repeated_configs(trial: Trial, *, repeats: int) -> None:
    """One DescribeConfigs that names the same broker again and again."""
    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource] * repeats, include_synonyms=True, include_documentation=True)
    _answered_or_closed(trial, trial.connect(), request, 4)


@case(short={"repeats": 500}, long={"repeats": 100_000}, peak_mb=200)
def repeated_groups(trial: Trial, *, repeats: int) -> None:
    """One DescribeGroups that names the same group again and again."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "honest-group", 0)
    _answered_or_closed(trial, link, DescribeGroupsRequest(groups=["honest-group"] * repeats), 4)


@case(short={"topics": 2_000}, long={"topics": 100_000}, peak_mb=200)
def repeated_topics(trial: Trial, *, topics: int) -> None:
    """One Metadata that names the same topic again and again."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="honest")] * topics, allow_auto_topic_creation=False)
    _answered_or_closed(trial, trial.connect(), request, 9)


@case(short={"repeats": 300}, long={"repeats": 20_000}, peak_mb=200)
def repeated_fetch_partitions(trial: Trial, *, repeats: int) -> None:
    """One Fetch that names a partition with 1 MB of records again and again."""
    link = trial.connect()
    wire.make_topic(link, "megabyte")
    wire.produced(link.request(wire.produce("megabyte", wire.batch_of([os.urandom(900_000)])), 9))
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="megabyte", partitions=[partition] * repeats)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=(1 << 31) - 1, topics=topics)
    response = _answered_or_closed(trial, link, request, 11)
    if response is not None:
        size = sum(len(partition.records or b"") for topic in response.responses for partition in topic.partitions)
        trial.note(f"{size >> 20} MB of records in the response")


@case(short={"timestamps": 500}, long={"timestamps": 20_000}, peak_mb=150)
def repeated_lookups_by_time(trial: Trial, *, timestamps: int) -> None:
    """One ListOffsets that looks for a time in the same compressed partition again and again."""
    link = trial.connect()
    wire.make_topic(link, "timed")
    batch = wire.batch_of([b"x" * 100] * 2_000, compression=4)
    code, _ = wire.produced(link.request(wire.produce("timed", batch), 9))
    assert code == ErrorCode.NONE
    partition = ListOffsetsPartition(partition_index=0, timestamp=1)
    topics = [ListOffsetsTopic(name="timed", partitions=[partition] * timestamps)]
    _answered_or_closed(trial, link, ListOffsetsRequest(replica_id=-1, topics=topics), 5)


@case(
    short={"ids": 50, "characters": 1_000},
    long={"ids": 4_000, "characters": 10_900},
    prepare=lambda trial, ids, characters: _make_ids(trial, ids),
    peak_mb=120,
)
def pattern_of_many_states(trial: Trial, *, ids: int, characters: int) -> None:
    """A pattern of ListTransactions with as many states as are allowed, over long ids."""
    pattern = "(.?a){300}" + "b?" * min(characters, 300)
    for text in (pattern, "(" * characters, "a" * characters, ".*" * (characters // 2)):
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=text)
        link = trial.connect()
        _answered_or_closed(trial, link, request, 2)


def _make_ids(trial: Trial, ids: int) -> None:
    with Link(trial.bootstrap) as link:
        for number in range(ids):
            wire.initialised(link, "a" * 200 + str(number))


@case(short={"keys": 20}, long={"keys": 500}, peak_mb=150)
def long_coordinator_keys(trial: Trial, *, keys: int) -> None:
    """One FindCoordinator with keys of 32 KB, all of which are hashed as Java does."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "any", 0)
    names = [f"{number:05}" + "x" * 32_000 for number in range(keys)]
    _answered_or_closed(trial, link, FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4)


@case(short={"sessions": 4, "partitions": 5_000}, long={"sessions": 4, "partitions": 200_000}, peak_mb=250)
def fetch_sessions(trial: Trial, *, sessions: int, partitions: int) -> None:
    """Fetch sessions over partitions that do not exist, each fetched once more with nothing new, then left."""
    for _ in range(sessions):
        link = trial.connect()
        made = _answered_or_closed(trial, link, _unknown_partitions(partitions, session_id=0, session_epoch=0), 11)
        if made is not None and made.session_id:
            again = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], session_id=made.session_id, session_epoch=1)
            _answered_or_closed(trial, link, again, 11)


@case(
    short={"topics": 200},
    long={"topics": 8_000},
    settings={"num.partitions": "100"},
    kept_mb=96,
)
def auto_creation(trial: Trial, *, topics: int) -> None:
    """One Metadata that names topics which are created when requested: more than one request may make."""
    names = [MetadataRequestTopic(name=f"wanted-{number}") for number in range(topics)]
    trial.connect().send(request_frame(MetadataRequest(topics=names), 4, 1))
    trial.hang_up()
    link = trial.connect()
    link.request(MetadataRequest(topics=names), 4)
    known = link.request(wire.metadata(), 9).topics
    made = sum(topic.name.startswith("wanted-") for topic in known)
    partitions = sum(len(topic.partitions) for topic in known)
    trial.note(f"{made} topics were made")
    trial.require(partitions <= 10_100, f"{partitions} partitions were made by a request for topics")


@case(short={"size": 60_000}, long={"size": 4_000_000})
def empty_elements(trial: Trial, *, size: int) -> None:
    """Requests that are one array of elements of a byte or two each, and arrays that claim more than is there."""
    for count in (size, (1 << 31) - 1, 0xFFFFFFFF):
        body = _uvarint(count) + b"\x01\x00" * (size // 2)
        link = trial.connect()
        link.send_if_open(wire.framed(b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff\x00" + body + b"\x00\x00\x00\x00"))
        with suppress(Hangup, TimeoutError):
            link.socket.settimeout(5)
            link.frame()


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@case(short={"requests": 20, "partitions": 500}, long={"requests": 200, "partitions": 5_000})
def large_commits(trial: Trial, *, requests: int, partitions: int) -> None:
    """OffsetCommits of so many partitions with metadata that no batch can hold them."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "large", 0)
    for number in range(requests):
        offsets = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=number, committed_metadata="m" * 4_000)
            for index in range(partitions)
        ]
        topics = [OffsetCommitRequestTopic(name="honest", partitions=offsets)]
        request = OffsetCommitRequest(group_id="large", member_id="", topics=topics)
        _answered_or_closed(trial, link, request, 7)
