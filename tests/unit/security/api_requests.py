"""Requests about the same few resources: the topic `t`, which is there, `absent`, which is not, the group `g`, the
transactional id `x`.
"""

from collections.abc import Callable
from typing import Any

from protocol.acls import Operation, PatternType, Permission, ResourceType
from protocol.messages import (
    fetch,
    group_offsets,
    metadata,
    produce,
    topics,
    transactions,
)
from protocol.records.record import NewRecord, build_batch

TOPICS = ("t", "absent")


def records(*, transactional: bool = False) -> memoryview:
    made = [NewRecord(value=b"v", timestamp_ms=1)]
    if not transactional:
        return memoryview(build_batch(made))
    return memoryview(build_batch(made, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))


def producing(*, transactional_id: str | None = None, by_id: bytes = bytes(16)) -> produce.ProduceRequest:
    batch = records(transactional=transactional_id is not None)
    names = ("",) if any(by_id) else TOPICS
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            produce.TopicProduceData(
                name=name, topic_id=by_id, partition_data=[produce.PartitionProduceData(index=0, records=batch)]
            )
            for name in names
        ],
    )


def fetching(*, by_id: bytes = bytes(16), replica_id: int = -1) -> fetch.FetchRequest:
    ids = (by_id, b"\1" * 16) if any(by_id) else (by_id, by_id)
    return fetch.FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            fetch.FetchTopic(
                topic="" if any(by_id) else name,
                topic_id=topic_id,
                partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
            )
            for name, topic_id in zip(TOPICS, ids, strict=True)
        ],
    )


def describing(**wanted: Any) -> metadata.MetadataRequest:
    asked = {
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }
    return metadata.MetadataRequest(**(asked | wanted))


def named(name: str | None, topic_id: bytes = bytes(16)) -> metadata.MetadataRequestTopic:
    return metadata.MetadataRequestTopic(name=name, topic_id=topic_id)


def creating(*names: str) -> topics.CreateTopicsRequest:
    return topics.CreateTopicsRequest(
        topics=[
            topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in names
        ],
        validate_only=True,
    )


def committing(version: int, topic_id: bytes) -> group_offsets.OffsetCommitRequest:
    by_id = version >= 10
    ids = (topic_id, b"\1" * 16) if by_id else (bytes(16), bytes(16))
    return group_offsets.OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=[
            group_offsets.OffsetCommitRequestTopic(
                name="" if by_id else name,
                topic_id=one,
                partitions=[
                    group_offsets.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=""
                    )
                ],
            )
            for name, one in zip(TOPICS, ids, strict=True)
        ],
    )


def fetched_offsets(topic_id: bytes = bytes(16), *, all_topics: bool = False) -> group_offsets.OffsetFetchRequest:
    ids = (topic_id, b"\1" * 16) if any(topic_id) else (bytes(16), bytes(16))
    wanted = [
        group_offsets.OffsetFetchRequestTopics(name="" if any(topic_id) else name, topic_id=one, partition_indexes=[0])
        for name, one in zip(TOPICS, ids, strict=True)
    ]
    return group_offsets.OffsetFetchRequest(
        groups=[group_offsets.OffsetFetchRequestGroup(group_id="g", topics=None if all_topics else wanted)]
    )


def fetched_alone() -> group_offsets.OffsetFetchRequest:
    wanted = [group_offsets.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in TOPICS]
    return group_offsets.OffsetFetchRequest(group_id="g", topics=wanted)


def staging() -> group_offsets.TxnOffsetCommitRequest:
    return group_offsets.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        member_id="",
        topics=[
            group_offsets.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    group_offsets.TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=""
                    )
                ],
            )
            for name in TOPICS
        ],
    )


def adding(version: int) -> transactions.AddPartitionsToTxnRequest:
    wanted = [transactions.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in TOPICS]
    if version < 4:
        return transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=7,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=wanted,
        )
    one = transactions.AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=7, producer_epoch=0, verify_only=True, topics=wanted
    )
    return transactions.AddPartitionsToTxnRequest(transactions=[one])


RESOURCES = ((2, "t"), (4, "1"), (16, "metrics"), (32, "g"))
"""Types and names of what has settings."""


def altering(request: type, resource: type) -> Callable[[bytes], Any]:
    return lambda _: request(
        resources=[resource(resource_type=kind, resource_name=name, configs=[]) for kind, name in RESOURCES],
        validate_only=True,
    )


def looking_for(name: str | None = None) -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": name,
        "pattern_type_filter": PatternType.LITERAL,
        "principal_filter": "User:nobody",
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
