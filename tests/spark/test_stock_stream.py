"""Spark's own connector, streaming: limits, triggers, transactions, data loss, growth, and a broker that is killed."""

import inspect
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition
from confluent_kafka.admin import NewPartitions, OffsetSpec

from tallystick.process import BrokerProcess
from tests.harness.confluent import (
    SECONDS,
    admin,
    make_topic,
    producer,
    read_all,
    values_of,
    wait_until,
    write,
)
from tests.spark.queries import Seen, finished, options, run_to_end, start, stream, until_seen
from tests.spark.test_stock_batch import delete_below, fill, numbered


def transactions(bootstrap: str, topic: str, plan: list[tuple[int, bool]], partition: int = 0) -> list[bytes]:
    """Write one transaction per (records, committed); the values of those that committed."""
    sender = producer(bootstrap, transactional__id=f"{topic}-{partition}", linger__ms=0)
    sender.init_transactions(SECONDS)
    committed: list[bytes] = []
    for step, (count, commit) in enumerate(plan):
        sender.begin_transaction()
        wanted = numbered(count, f"{partition}-{step:03d}-")
        for value in wanted:
            sender.produce(topic, value, partition=partition)
        if commit:
            sender.commit_transaction(SECONDS)
            committed += wanted
        else:
            assert sender.flush(SECONDS) == 0
            sender.abort_transaction(SECONDS)
    return committed


def test_available_now_in_small_batches_and_again_from_the_checkpoint(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """Starting offsets count once; a restart goes on where the checkpoint says."""
    written = fill(bootstrap, name, 4, 100)
    frame = stream(spark, bootstrap, subscribe=name, maxOffsetsPerTrigger=100, minPartitions=6)
    seen = run_to_end(frame, checkpoint)
    assert seen.values() == sorted(value for records in written.values() for value in records)
    assert [len(rows) for rows in seen.batches.values()] == [100, 100, 100, 100]
    write(bootstrap, name, numbered(10, "later-"), partition=2)
    again = run_to_end(stream(spark, bootstrap, subscribe=name, startingOffsets="latest"), checkpoint)
    assert again.values() == numbered(10, "later-")


def test_assign_and_starting_timestamps_in_a_stream(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    make_topic(bootstrap, name, 2, retention__ms="-1")
    sender = producer(bootstrap)
    for number, value in enumerate(numbered(20)):
        sender.produce(name, value, partition=number % 2, timestamp=1_000_000 + number)
    assert sender.flush(30) == 0
    frame = stream(
        spark,
        bootstrap,
        assign=json.dumps({name: [1]}),
        startingOffsetsByTimestamp=json.dumps({name: {"1": 1_000_008}}),
    )
    assert run_to_end(frame, checkpoint).values() == numbered(20)[9::2]


@pytest.mark.whole
def test_min_offsets_per_trigger_waits_for_enough(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    make_topic(bootstrap, name)
    write(bootstrap, name, numbered(30))
    frame = stream(spark, bootstrap, subscribe=name, minOffsetsPerTrigger=20, maxTriggerDelay="10m")
    seen = Seen()
    query = start(frame, checkpoint, seen)
    try:
        until_seen(query, seen, numbered(30))
        write(bootstrap, name, numbered(19, "b"))
        query.processAllAvailable()
        assert len(seen.rows()) == 30
        write(bootstrap, name, numbered(1, "c"))
        until_seen(query, seen, [*numbered(19, "b"), *numbered(1, "c")])
    finally:
        query.stop()


def test_read_committed_over_aborted_transactions(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Markers and aborted records at every boundary of small batches move the position and are not shown (I29)."""
    make_topic(bootstrap, name, 2)
    plan = [(7, False), (1, True), (150, False), (3, True), (1, False), (1, True), (60, False), (9, True), (2, False)]
    committed = transactions(bootstrap, name, plan) + transactions(bootstrap, name, [(200, False)], partition=1)
    frame = stream(spark, bootstrap, subscribe=name, maxOffsetsPerTrigger=60, kafka__isolation__level="read_committed")
    assert run_to_end(frame, checkpoint).values() == sorted(committed)


def test_an_open_transaction_holds_its_partition_alone(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """The last stable offset is the end for read_committed; what is behind it comes when it is decided."""
    make_topic(bootstrap, name, 2)
    sender = producer(bootstrap, transactional__id=name, linger__ms=0)
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    sender.produce(name, b"undecided", partition=0)
    assert sender.flush(SECONDS) == 0
    write(bootstrap, name, [b"behind"], partition=0)
    write(bootstrap, name, [b"beside"], partition=1)
    committed = {"subscribe": name, "kafka__isolation__level": "read_committed"}
    seen = run_to_end(stream(spark, bootstrap, **committed), checkpoint)
    assert seen.values() == [b"beside"]
    sender.commit_transaction(SECONDS)
    assert run_to_end(stream(spark, bootstrap, **committed), checkpoint).values() == [b"behind", b"undecided"]


@pytest.mark.parametrize("fail", [True, False])
def test_records_deleted_below_the_checkpoint(
    spark: Any, bootstrap: str, name: str, checkpoint: str, fail: bool
) -> None:
    written = fill(bootstrap, name, 1, 50)
    frame = stream(spark, bootstrap, subscribe=name, failOnDataLoss=str(fail).lower())
    assert run_to_end(frame, checkpoint).values() == written[0]
    write(bootstrap, name, numbered(50, "b"), partition=0)
    delete_below(bootstrap, name, 70)
    if fail:
        with pytest.raises(Exception, match=r"(?i)data.?loss|lost|missed"):
            run_to_end(frame, checkpoint)
    else:
        assert run_to_end(frame, checkpoint).values() == numbered(50, "b")[20:]


def test_partitions_and_topics_that_come_while_it_runs(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    make_topic(bootstrap, f"{name}-a", 1)
    write(bootstrap, f"{name}-a", [b"first"])
    frame = stream(spark, bootstrap, subscribePattern=re.escape(name) + "-.*", kafka__metadata__max__age__ms=500)
    seen = Seen()
    query = start(frame, checkpoint, seen)
    try:
        until_seen(query, seen, [b"first"])
        asker = admin(bootstrap)
        asker.create_partitions([NewPartitions(f"{name}-a", 3)])[f"{name}-a"].result(30)
        write(bootstrap, f"{name}-a", [b"new partition"], partition=2)
        make_topic(bootstrap, f"{name}-b")
        write(bootstrap, f"{name}-b", [b"new topic"])
        until_seen(query, seen, [b"new partition", b"new topic"])
    finally:
        query.stop()
    assert seen.values() == [b"first", b"new partition", b"new topic"]


class LatestWatch(threading.Thread):
    """Requests the latest offsets again and again; remembers if one of them ever went back."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.stopping, self.went_back, self.answers = threading.Event(), [], 0
        self._asker = admin(bootstrap)
        self._asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        self.start()

    def run(self) -> None:
        highest: Counter[int] = Counter()
        while not self.stopping.wait(0.005):
            for where, future in self._asker.list_offsets(self._asked, request_timeout=2).items():
                try:
                    latest = future.result().offset
                except Exception:  # The broker is down just now.
                    continue
                if latest == OFFSET_INVALID:  # The client's own, for a partition that was not answered.
                    continue
                self.answers += 1
                if latest < highest[where.partition]:
                    self.went_back.append((where.partition, highest[where.partition], latest))
                highest[where.partition] = latest

    def finish(self) -> None:
        self.stopping.set()
        self.join(SECONDS)
        assert self.went_back == [] and self.answers > 0


def test_a_query_goes_on_over_kill_9_of_the_broker(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str
) -> None:
    """Nothing lost, nothing doubled, no data loss reported; `latest` never goes back."""
    broker = own_broker().start()
    make_topic(broker.bootstrap, name, 2)
    watch = LatestWatch(broker.bootstrap, name, 2)
    seen, wanted = Seen(), []
    query = start(stream(spark, broker.bootstrap, subscribe=name, failOnDataLoss="true"), checkpoint, seen)
    try:
        for round_number in range(3):
            if round_number:
                broker.kill()
                broker.start()
            values = numbered(200, f"{round_number}-")
            write(broker.bootstrap, name, values, enable__idempotence=True)
            wanted += values
            until_seen(query, seen, values)
        assert seen.values() == sorted(wanted)
        assert query.exception() is None
    finally:
        query.stop()
        watch.finish()


def test_the_stock_sink_survives_kill_9_of_the_broker(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str
) -> None:
    """Its producers are idempotent, so within one run of the query the restart doubles nothing."""
    broker = own_broker().start()
    source, sink = make_topic(broker.bootstrap, f"{name}-in", 2), make_topic(broker.bootstrap, f"{name}-out", 2)
    frame = stream(spark, broker.bootstrap, subscribe=source).select("key", "value")
    to = options(broker.bootstrap, {"topic": sink}) | {"checkpointLocation": checkpoint}
    query = frame.writeStream.format("kafka").options(**to).trigger(processingTime="100 milliseconds").start()
    wanted: list[bytes] = []
    try:
        for round_number in range(2):
            if round_number:
                broker.kill()
                broker.start()
            wanted += numbered(300, f"{round_number}-")
            write(broker.bootstrap, source, numbered(300, f"{round_number}-"), enable__idempotence=True)
            expected = sorted(wanted)
            wait_until(
                lambda expected=expected: (
                    query.exception() or sorted(values_of(read_all(broker.bootstrap, sink))) == expected
                ),
                "every record at the sink",
                seconds=SECONDS,
            )
            assert query.exception() is None
    finally:
        query.stop()


def test_the_trigger_of_real_time_mode(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Where this PySpark has it: records come through without micro-batches."""
    from pyspark.sql.streaming import DataStreamWriter

    if "realTime" not in inspect.signature(DataStreamWriter.trigger).parameters:
        pytest.skip("this PySpark has no real-time mode")
    make_topic(bootstrap, f"{name}-in")
    make_topic(bootstrap, f"{name}-out")
    to = options(bootstrap, {"topic": f"{name}-out"}) | {"checkpointLocation": checkpoint}
    frame = stream(spark, bootstrap, subscribe=f"{name}-in").select("value")
    query = frame.writeStream.format("kafka").outputMode("update").options(**to).trigger(realTime="5 seconds").start()
    try:
        write(bootstrap, f"{name}-in", numbered(20))
        wait_until(lambda: query.exception() or len(read_all(bootstrap, f"{name}-out")) == 20, "20 records through")
        assert query.exception() is None
    finally:
        query.stop()


def test_a_stream_ends_when_nothing_visible_is_left(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """A partition that holds nothing but an aborted transaction ends a run as well."""
    make_topic(bootstrap, name)
    transactions(bootstrap, name, [(40, False)])
    frame = stream(spark, bootstrap, subscribe=name, kafka__isolation__level="read_committed")
    query = start(frame, checkpoint, Seen(), availableNow=True)
    finished(query)
