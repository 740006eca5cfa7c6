"""Bytes of an object are changed by somebody: it is said where they lie, who reads what lies there is refused, and
everything else goes on.
"""

import asyncio
import dataclasses
import struct
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from broker.shared.bringing import tail_of
from broker.shared.objects_in_s3 import ObjectsInS3
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.records.batch import headers_in
from protocol.records.record import NewRecord, build_batch
from storage.log import LogDamaged
from storage.shared.store import LogChange, Run
from tallystick.process import BrokerProcess
from tests.harness.together import answer_of
from tests.shared_store.engines import object_of
from tests.shared_store.objects.nodes_apart import NodesApart
from tests.shared_store.objects.s3_server import BUCKET, Looking, S3Server
from tests.shared_store.objects.shared_s3 import SharedS3, with_a_log
from tests.shared_store.postgresql_server import PostgresqlServer
from tests.shared_store.test_a_broker import PATIENCE_S, everything, make_topic

BATCH = build_batch([NewRecord(value=b"v" * 100, timestamp_ms=1)])
WHERE = pytest.mark.parametrize("apart", [True, False], ids=["in the bucket", "in the database"])


@WHERE
def test_a_byte_that_is_wrong_is_said_with_the_name_of_the_object(
    apart: bool, postgresql: PostgresqlServer, moto: S3Server, schema: str
) -> None:
    async def story() -> None:
        shared, looking = SharedS3(postgresql, schema, moto.port, kind=ObjectsInS3), Looking(moto.port, schema)
        store = shared.objects
        try:
            who, log = await with_a_log(store)
            change = LogChange(log.log_id, log.owner_epoch, 0, (Run(0, 0, 0, len(BATCH), 1),))
            damaged = BATCH[:-1] + b"w"
            if apart:
                upload = await store.upload(who, object_of(who, 7), [BATCH])
                await store.commit(who, object_of(who, 1), upload, [change])
                assert len(await tail_of(store, dataclasses.replace(log, next_offset=1), 0, "t-0")) == 1
                looking.put("drawn/00000001/00000007", damaged)
                store._small._kept.clear()  # It was brought a moment ago.
                named = f"s3://{BUCKET}/{schema}/drawn/00000001/00000007"
            else:
                await store.commit(who, object_of(who, 1), [damaged], [change])
                named = f"object {object_of(who, 1)}"
            with pytest.raises(LogDamaged, match=f"^t-0 is damaged at offset 0: a checksum is wrong in {named}$"):
                await tail_of(store, dataclasses.replace(log, next_offset=1), 0, "t-0")
        finally:
            await shared.close()

    asyncio.run(story())


class Cluster:
    """A node whose topic `t` has three records, of which somebody has given the second another offset."""

    def __init__(self, nodes: NodesApart, *, apart: bool) -> None:
        self._nodes = nodes
        make = nodes.node if apart else super(NodesApart, nodes).node
        self.node: BrokerProcess = make(1, tallystick_store_memory_bytes="1")
        self.node.start()
        for topic in ("t", "other"):
            make_topic(self.node.bootstrap, topic)
        for value in ("first", "second", "third"):
            assert self.told("t", value) is None
            assert self.told("other", value) is None
        wanted = [MetadataRequestTopic(name="t")]
        answer = answer_of(self.node.bootstrap, MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        self._topic_id: bytes = answer.topics[0].topic_id

    def told(self, topic: str, value: str) -> str | None:
        """What the writer of a record is told that went wrong."""
        told: list[str | None] = []
        producer = Producer({"bootstrap.servers": self.node.bootstrap, "linger.ms": 0, "retries": 0})
        noted: Any = lambda error, _: told.append(error and error.name())  # noqa: E731
        producer.produce(topic, value.encode(), on_delivery=noted)
        assert producer.flush(PATIENCE_S) == 0
        return told[0]

    def give_the_second_another_offset(self) -> str:
        """The name of its object."""
        query = (
            "SELECT object_id, upload_id, bytes, position FROM run JOIN log USING (log_id)"
            " JOIN object USING (object_id) WHERE topic_id = $1 AND run.base_offset <= 1 AND run.last_offset >= 1"
        )
        found: list[dict[str, Any]] = self._nodes.sql(query, self._topic_id)
        (row,) = found
        change = partial(_with_another_offset, row["position"])
        if row["upload_id"] is None:
            update = "UPDATE object SET bytes = $2 WHERE object_id = $1"
            self._nodes.sql(update, row["object_id"], change(row["bytes"]))
            return f"object {row['object_id']}"
        return self._nodes.rewrite(row["upload_id"], change)

    def fetched(self, offset: int) -> PartitionData:
        """What one fetch is answered."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=20_000,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic="t", topic_id=self._topic_id, partitions=[wanted])],
            forgotten_topics_data=[],
        )
        (topic,) = answer_of(self.node.bootstrap, request).responses
        found: PartitionData = topic.partitions[0]
        return found

    def look_at_the_other(self) -> None:
        assert self.told("other", "fourth") is None
        assert everything(self.node.bootstrap, "other") == ["first", "second", "third", "fourth"]


def _with_another_offset(position: int, data: bytes) -> bytes:
    at = next(at for at, header in headers_in(data, position) if header.base_offset == 1)
    return data[:at] + struct.pack(">q", 77) + data[at + 8 :]


@WHERE
def test_a_reader_of_a_batch_that_lies_elsewhere_hears_of_it(apart: bool, nodes: NodesApart) -> None:
    cluster = Cluster(nodes, apart=apart)
    assert cluster.node.stop() == 0
    named = cluster.give_the_second_another_offset()
    cluster.node.start()
    assert [header.base_offset for _, header in headers_in(cluster.fetched(0).records or b"")] == [0]
    for _ in range(2):
        refused = cluster.fetched(1)
        assert (refused.error_code, refused.records or b"") == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert f"t-0 is damaged at offset 1: a run is not what was committed in {named}" in cluster.node.log_end(1 << 16)
    assert [header.base_offset for _, header in headers_in(cluster.fetched(2).records or b"")] == [2]
    assert cluster.told("t", "fourth") is None
    cluster.look_at_the_other()


@WHERE
def test_a_takeover_does_not_pass_over_a_batch_that_lies_elsewhere(apart: bool, nodes: NodesApart) -> None:
    cluster = Cluster(nodes, apart=apart)
    cluster.node.kill()
    named = cluster.give_the_second_another_offset()
    cluster.node.start()
    for offset in range(4):
        assert cluster.fetched(offset).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.told("t", "fourth") == "KAFKA_STORAGE_ERROR"
    assert f"t-0 is damaged at offset 1: a run is not what was committed in {named}" in cluster.node.log_end(1 << 16)
    cluster.look_at_the_other()
