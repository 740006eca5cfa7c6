"""Spark's own connector over logs that shrink and have holes, and its options that other tests do not need."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tallystick.process import BrokerProcess
from tests.harness.confluent import SECONDS, admin, consumer, make_topic, producer, read_all, wait_until, write
from tests.spark.queries import Seen, finished, read, run_to_end, start, stream, until_seen, values
from tests.spark.test_stock_batch import delete_below, fill, numbered

SMALL = {"segment__ms": "1", "retention__ms": "1"}
KEYED = {"cleanup__policy": "compact", "segment__ms": "1", "min__cleanable__dirty__ratio": "0.01"}
TIDY = {"log.retention.check.interval.ms": "50", "log.cleaner.backoff.ms": "50"}
"""A broker that throws away at once what it may."""


def test_latest_is_where_a_stream_was_started(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    fill(bootstrap, name, 2, 20)
    seen = Seen()
    query = start(stream(spark, bootstrap, subscribe=name, startingOffsets="latest"), checkpoint, seen)
    try:
        query.processAllAvailable()
        write(bootstrap, name, numbered(30, "later-"))
        until_seen(query, seen, numbered(30, "later-"))
    finally:
        query.stop()
    assert seen.values() == numbered(30, "later-")


def test_records_per_partition_bound_the_tasks_of_a_stream(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """`maxRecordsPerPartition` splits (the batch reader does not know it); headers come along; groups have a prefix."""
    make_topic(bootstrap, name)
    sender = producer(bootstrap)
    for value in numbered(100):
        sender.produce(name, value, partition=0, headers=[("n", value)])
    assert sender.flush(SECONDS) == 0
    tasks: list[int] = []
    rows: list[Any] = []

    def look(frame: Any, batch_id: int) -> None:
        tasks.append(frame.rdd.getNumPartitions())
        rows.extend(frame.collect())

    split = {"maxRecordsPerPartition": 25, "includeHeaders": "true", "groupIdPrefix": name}
    frame = stream(spark, bootstrap, subscribe=name, **split)
    writer = frame.writeStream.foreachBatch(look).option("checkpointLocation", checkpoint)
    finished(writer.trigger(availableNow=True).start())
    assert tasks == [4]
    assert sorted(row.headers[0].value for row in rows) == numbered(100)
    assert all(row.headers[0].value == row.value for row in rows)


def test_a_group_of_ones_own(spark: Any, bootstrap: str, name: str) -> None:
    """`kafka.group.id` only names the consumers: nothing is committed to it, and it hides nothing."""
    written = fill(bootstrap, name, 2, 10)
    for _ in range(2):
        assert values(read(spark, bootstrap, subscribe=name, kafka__group__id=name)) == sorted(written[0] + written[1])


def test_offsets_deleted_behind_a_running_query_are_no_data_loss(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """Its position is at the new start of the log, not below it."""
    make_topic(bootstrap, name)
    seen = Seen()
    query = start(stream(spark, bootstrap, subscribe=name, failOnDataLoss="true"), checkpoint, seen)
    try:
        for round_number in range(4):
            write(bootstrap, name, numbered(50, f"{round_number}-"), partition=0)
            until_seen(query, seen, numbered(50, f"{round_number}-"))
            delete_below(bootstrap, name, 50 * (round_number + 1))
        assert query.exception() is None
    finally:
        query.stop()
    assert len(seen.values()) == 200 and max(Counter(seen.values()).values()) == 1


def _has_shrunk(bootstrap: str, topic: str) -> bool:
    asker = consumer(bootstrap)
    try:
        return bool(asker.get_watermark_offsets(TopicPartition(topic, 0), SECONDS)[0] > 0)
    finally:
        asker.close()


def _keep_all(bootstrap: str, topic: str) -> None:
    entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    asker = admin(bootstrap)
    for changed in asker.incremental_alter_configs([resource]).values():
        changed.result(SECONDS)


@pytest.mark.whole
@pytest.mark.parametrize("how", ["retention", "DeleteRecords"])
def test_a_log_that_shrinks_under_a_running_query(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str, how: str
) -> None:
    """`failOnDataLoss=false`: what is gone is left out, nothing comes twice, and the query is at the end in the end."""
    bootstrap = own_broker(more=TIDY).start().bootstrap
    make_topic(bootstrap, name, **(SMALL if how == "retention" else {}))
    seen, written, over = Seen(), [], threading.Event()
    frame = stream(spark, bootstrap, subscribe=name, failOnDataLoss="false", maxOffsetsPerTrigger=2000)
    query = start(frame, checkpoint, seen)

    def shrink() -> None:
        number = 0
        while not over.is_set():
            records = numbered(50, f"{number:04d}-")
            write(bootstrap, name, records, partition=0)
            written.extend(records)
            number += 1
            if how == "DeleteRecords":
                delete_below(bootstrap, name, len(written) - 10)

    shrinking = threading.Thread(target=shrink)
    shrinking.start()
    try:
        wait_until(lambda: query.exception() or (len(seen.batches) > 5 and len(written) > 500), "some batches")
        wait_until(lambda: _has_shrunk(bootstrap, name), "what retention takes away", seconds=2 * SECONDS)
        over.set()
        shrinking.join()
        _keep_all(bootstrap, name)
        write(bootstrap, name, numbered(50, "last-"), partition=0)
        until_seen(query, seen, numbered(50, "last-"))
    finally:
        over.set()
        query.stop()
    found = Counter(seen.values())
    assert max(found.values()) == 1
    assert set(found) <= {*written, *numbered(50, "last-")}


def _keyed(bootstrap: str, topic: str) -> dict[bytes, bytes]:
    """Write each key many times: plainly, in transactions that commit and in those that do not; what is valid last."""
    valid: dict[bytes, bytes] = {}
    sender = producer(bootstrap, transactional__id=topic, linger__ms=0)
    sender.init_transactions(SECONDS)
    for round_number in range(12):
        value = f"round {round_number}".encode()
        sender.begin_transaction()
        keys = numbered(20 - round_number)
        for key in keys:
            sender.produce(topic, value, key, partition=0)
        if round_number % 3 == 2:
            assert sender.flush(SECONDS) == 0
            sender.abort_transaction(SECONDS)
        else:
            sender.commit_transaction(SECONDS)
            valid.update(dict.fromkeys(keys, value))
    return valid


def test_compacted_holes_are_no_data_loss(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str
) -> None:
    """Offsets are missing everywhere, at the ends of small batches too; control records lie between them (I29)."""
    bootstrap = own_broker(more=TIDY).start().bootstrap
    make_topic(bootstrap, name, **KEYED)
    valid = _keyed(bootstrap, name)
    before = sum(20 - number for number in range(12))
    wait_until(lambda: len(read_all(bootstrap, name, read_committed=False)) < before // 2, "compaction")
    strict = {"subscribe": name, "failOnDataLoss": "true", "kafka__isolation__level": "read_committed"}
    seen = run_to_end(stream(spark, bootstrap, maxOffsetsPerTrigger=31, **strict), checkpoint)
    latest = {bytes(row.key): bytes(row.value) for row in sorted(seen.rows(), key=lambda row: row.offset)}
    assert latest == valid
    assert len(seen.batches) > 4
    offsets = json.dumps({name: {"0": 5}})
    bounded = read(spark, bootstrap, startingOffsets=offsets, **strict)
    assert {bytes(row.key): bytes(row.value) for row in bounded.orderBy("offset").collect()}.items() <= valid.items()
