"""Format kafka-arrow in a stream: limits, checkpoints, transactions, data loss, growth, and a broker that is killed."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewPartitions

from tallystick.process import BrokerProcess
from tests.harness.confluent import SECONDS, admin, make_topic, producer, write
from tests.spark import queries
from tests.spark.eos_queries import input_of, output_of, run_driver, run_eos
from tests.spark.queries import Seen, finished, run_to_end, start, until_seen
from tests.spark.test_stock_batch import at, delete_below, fill, numbered
from tests.spark.test_stock_stream import transactions


@pytest.fixture(scope="module", autouse=True)
def registered(spark: Any) -> None:
    from spark_connector.source.kafka_arrow import KafkaArrow

    spark.dataSource.register(KafkaArrow)


def stream(spark: Any, bootstrap: str, **more: Any) -> Any:
    return queries.stream(spark, bootstrap, "kafka-arrow", **more)


def test_small_batches_and_again_from_the_checkpoint(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Limits are kept, starting offsets count once, a restart goes on where the checkpoint says, and what stands there
    is what the stock source writes.
    """
    written = fill(bootstrap, name, 4, 100)
    frame = stream(spark, bootstrap, subscribe=name, maxOffsetsPerTrigger=100, minPartitions=6)
    seen = Seen()
    query = start(frame, checkpoint, seen, availableNow=True)
    finished(query)
    assert seen.values() == sorted(value for records in written.values() for value in records)
    assert [len(rows) for rows in seen.batches.values()] == [100, 100, 100, 100]
    assert json.loads(query.lastProgress["sources"][0]["endOffset"]) == json.loads(
        at(name, p0=100, p1=100, p2=100, p3=100)
    )
    write(bootstrap, name, numbered(10, "later-"), partition=2)
    again = run_to_end(stream(spark, bootstrap, subscribe=name, startingOffsets="latest"), checkpoint)
    assert again.values() == numbered(10, "later-")


def test_batches_are_limited_by_bytes(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    make_topic(bootstrap, name, 2)
    sent = [b"%04d" % number + bytes(996) for number in range(400)]
    for partition in range(2):
        write(bootstrap, name, sent[partition::2], partition=partition, batch__size=10_000)
    seen = run_to_end(stream(spark, bootstrap, subscribe=name, maxBytesPerTrigger=100_000), checkpoint)
    assert seen.values() == sent
    sizes = [sum(len(row.value) for row in rows) for rows in seen.batches.values()]
    assert len(sizes) >= 4 and max(sizes) <= 130_000, sizes


def test_read_committed_by_default_over_aborted_transactions(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """Markers and aborted records at every boundary of small batches move the position and are not shown (I29)."""
    make_topic(bootstrap, name, 2)
    plan = [(7, False), (1, True), (150, False), (3, True), (1, False), (1, True), (60, False), (9, True), (2, False)]
    committed = transactions(bootstrap, name, plan) + transactions(bootstrap, name, [(200, False)], partition=1)
    assert run_to_end(stream(spark, bootstrap, subscribe=name, maxOffsetsPerTrigger=60), checkpoint).values() == sorted(
        committed
    )


def test_an_open_transaction_holds_its_partition_alone(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    make_topic(bootstrap, name, 2)
    sender = producer(bootstrap, transactional__id=name, linger__ms=0)
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    sender.produce(name, b"undecided", partition=0)
    assert sender.flush(SECONDS) == 0
    write(bootstrap, name, [b"behind"], partition=0)
    write(bootstrap, name, [b"beside"], partition=1)
    assert run_to_end(stream(spark, bootstrap, subscribe=name), checkpoint).values() == [b"beside"]
    sender.commit_transaction(SECONDS)
    assert run_to_end(stream(spark, bootstrap, subscribe=name), checkpoint).values() == [b"behind", b"undecided"]


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
        with pytest.raises(Exception, match="failOnDataLoss"):
            run_to_end(frame, checkpoint)
    else:
        assert run_to_end(frame, checkpoint).values() == numbered(50, "b")[20:]


def test_partitions_that_come_while_it_runs(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    make_topic(bootstrap, name, 1)
    write(bootstrap, name, [b"first"], partition=0)
    seen = Seen()
    query = start(stream(spark, bootstrap, subscribe=name), checkpoint, seen)
    try:
        until_seen(query, seen, [b"first"])
        asker = admin(bootstrap)
        asker.create_partitions([NewPartitions(name, 3)])[name].result(SECONDS)
        write(bootstrap, name, [b"second"], partition=2)
        until_seen(query, seen, [b"first", b"second"])
    finally:
        query.stop()


def test_a_topic_made_anew_is_data_loss(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Its end lies before what the checkpoint has read: nothing is read twice, nothing is skipped in silence."""
    fill(bootstrap, name, 1, 50)
    assert len(run_to_end(stream(spark, bootstrap, subscribe=name), checkpoint).values()) == 50
    asker = admin(bootstrap)
    asker.delete_topics([name])[name].result(SECONDS)
    fill(bootstrap, name, 1, 20)
    with pytest.raises(Exception, match="ends at 20, and 50 was read already"):
        run_to_end(stream(spark, bootstrap, subscribe=name), checkpoint)


@pytest.mark.parametrize(
    ("who", "step"),
    [
        pytest.param(*case, marks=pytest.mark.whole)
        for case in (("jvm", "written"), ("jvm", "ended"), ("driver", "writing"))
    ],
)
def test_a_killed_driver_resumes_from_its_checkpoint(
    spark: Any, bootstrap: str, name: str, checkpoint: str, who: str, step: str
) -> None:
    """From kafka-arrow into kafka-eos: the replay reads exactly the offsets of the first try, and the group of the sink
    stands at the source's end.
    """
    wanted = input_of(bootstrap, name)
    more: dict[str, Any] = {"source": "kafka-arrow", "groupId": f"{name}-group"}
    done = run_driver(bootstrap, name, checkpoint, fault=f"{who}@{step}", faultFlag=f"{checkpoint}.fault", **more)
    assert Path(f"{checkpoint}.fault").exists(), done.stderr.decode(errors="replace")[-3000:]
    assert done.returncode != 0
    run_eos(spark, bootstrap, name, checkpoint, **more)
    assert output_of(bootstrap, name) == wanted
    groups = [ConsumerGroupTopicPartitions(more["groupId"], [TopicPartition(f"{name}-in", p) for p in range(3)])]
    asker = admin(bootstrap)
    (found,) = [one.result(SECONDS) for one in asker.list_consumer_group_offsets(groups).values()]
    assert [one.offset for one in found.topic_partitions] == [len(wanted) // 3] * 3


def test_a_broker_killed_in_mid_query_costs_nothing(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str
) -> None:
    """The query goes on by itself; every record is seen, and none twice."""
    broker = own_broker().start()
    make_topic(broker.bootstrap, name, 3)
    seen = Seen()
    query = start(stream(spark, broker.bootstrap, subscribe=name, maxOffsetsPerTrigger=300), checkpoint, seen)
    acknowledged: list[bytes] = []

    def write_all() -> None:
        for step in range(12):
            made = write(broker.bootstrap, name, numbered(100, f"{step:02d}-"), enable__idempotence=True)
            acknowledged.extend(message.value() for message in made.acknowledged)

    writing = threading.Thread(target=write_all)
    writing.start()
    try:
        for _kill in range(3):
            before = len(seen.rows())
            broker.kill()
            broker.start()
            until_seen(query, seen, acknowledged[: before + 1])
        writing.join(SECONDS)
        assert not writing.is_alive() and len(acknowledged) == 1200
        until_seen(query, seen, acknowledged)
    finally:
        query.stop()
    assert Counter(seen.values()) == Counter(acknowledged)
    positions = [(row.partition, row.offset) for row in seen.rows()]
    assert len(positions) == len(set(positions))
