"""Each recipe of `docs/spark-recipes.md` does what it says: exact rows, committed, none twice."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message, TopicPartition

from tests.harness import jars
from tests.harness.certificates import Certificates
from tests.harness.confluent import consumer, make_topic, producer, read_all, values_of, write
from tests.harness.secure_broker import SCRAM, SecureBroker, sasl_settings, secure_broker
from tests.spark.outcome import until_nothing_is_open
from tests.spark.queries import options
from tests.spark.recipes import Recipe, by_name
from tests.spark.test_eos_faults import forget_the_last_commit

RECIPES = 10


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(spark: Any, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """One for all recipes: each has topics of its own. The guarded listener wants TLS and a password."""
    settings = sasl_settings({}) | certificates.settings(prefix="listener.name.secure.")
    made = secure_broker(tmp_path_factory.mktemp("recipes"), settings, "SASL_SSL")
    try:
        made.add_users({"spark": "secret"}, SCRAM)
        yield made
    finally:
        made.process.close()


@pytest.fixture
def recipe(
    request: pytest.FixtureRequest, spark: Any, broker: SecureBroker, certificates: Certificates, tmp_path: Path
) -> Iterator[Recipe]:
    """The one that the test is named after; a block that the test does not run is an error."""
    blocks = by_name()[request.node.originalname.removeprefix("test_")]
    made = Recipe(spark, broker, certificates, tmp_path, blocks)
    try:
        yield made
    finally:
        made.close()
    assert made.unread == set()


def test_every_recipe_has_its_test() -> None:
    assert [name for name in by_name() if f"test_{name}" not in globals()] == []
    assert len(by_name()) == RECIPES


def topics(recipe: Recipe, *names: str, partitions: int = 2, **config: str) -> None:
    for name in names:
        make_topic(recipe.broker.open_bootstrap, name, partitions, **config)


def arrive(recipe: Recipe, topic: str, *values: bytes, partition: int = -1) -> None:
    write(recipe.broker.open_bootstrap, topic, values, partition=partition)


def records(recipe: Recipe, topic: str, partitions: int = 2) -> list[Message]:
    """What a reader of committed records finds, when nothing is left open."""
    until_nothing_is_open(recipe.broker.open_bootstrap, topic, partitions)
    return read_all(recipe.broker.open_bootstrap, topic)


def found(recipe: Recipe, topic: str) -> list[bytes]:
    return sorted(values_of(records(recipe, topic)))


@pytest.mark.whole
@pytest.mark.whole
def test_join_of_two_topics(recipe: Recipe) -> None:
    topics(recipe, "orders", "payments", "paid-orders")
    arrive(recipe, "orders", *(b'{"number": %d, "customer": "c%d"}' % (number, number) for number in range(4)))
    arrive(recipe, "payments", b'{"number": 1, "cents": 100}', b'{"number": 9, "cents": 900}')
    recipe.run()
    recipe.settle()
    arrive(recipe, "payments", b'{"number": 3, "cents": 300}', b"not a payment")
    recipe.settle()
    rows = [json.loads(value) for value in found(recipe, "paid-orders")]
    assert rows == [{"number": number, "customer": f"c{number}", "cents": 100 * number} for number in (1, 3)]


def test_foreachbatch_with_a_dead_letter_topic(recipe: Recipe) -> None:
    topics(recipe, "readings", "measurements", "dead-letters")
    good = [b'{"sensor":"s%d","degrees":%d.5}' % (number, number) for number in range(8)]
    bad = [b"", b"{", b'{"sensor": "s9"}', b"\xff\xfe", b'{"degrees": 3.0}']
    arrive(recipe, "readings", *good[:4], *bad[:3], partition=0)
    recipe.run()
    recipe.settle()
    arrive(recipe, "readings", *bad[3:], *good[4:], partition=1)
    recipe.settle()
    assert found(recipe, "measurements") == good
    letters = {dict(one.headers() or [])["from"]: one.value() for one in records(recipe, "dead-letters")}
    places = [b"readings/0/4", b"readings/0/5", b"readings/0/6", b"readings/1/0", b"readings/1/1"]
    assert letters == dict(zip(places, bad, strict=True))
    assert transactions_of(recipe, "measurements") == transactions_of(recipe, "dead-letters")


def transactions_of(recipe: Recipe, topic: str) -> set[tuple[int, int]]:
    """Producer id and epoch of each transaction that has records in a topic."""
    reading = recipe.spark.read.format("kafka-arrow").options(**options(recipe.broker.open_bootstrap, {}))
    rows = reading.option("subscribe", topic).option("includeTransactions", "true").load()
    return {tuple(row) for row in rows.select("producerId", "producerEpoch").distinct().collect()}


@pytest.mark.whole
@pytest.mark.whole
def test_backfill_then_stream(recipe: Recipe) -> None:
    """All of it twice, as it may be; the topic has the archived records, too."""
    topics(recipe, "clicks", "clean-clicks")
    values = [b" click %d " % number for number in range(12)]
    for partition in (0, 1):
        arrive(recipe, "clicks", *values[partition::2], partition=partition)
    old = [(b"k", value, number % 2, number // 2) for number, value in enumerate(values[:7])]
    columns = [pa.array(column) for column in zip(*old, strict=True)]
    names = ["key", "value", "partition", "offset"]
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), recipe.folder / "clicks-archive")
    for more in (b" click 98 ", b" click 99 "):
        recipe.run()
        recipe.settle()
        arrive(recipe, "clicks", more)
        recipe.settle()
        recipe.names["query"].stop()
    assert found(recipe, "clean-clicks") == sorted(b"click %d" % number for number in (*range(12), 98, 99))


@pytest.mark.whole
def test_restart_from_a_moved_checkpoint(recipe: Recipe) -> None:
    """The last batch is in doubt, as after a crash between EndTxn and Spark's note of it."""
    topics(recipe, "parcels", "sent-parcels")
    arrive(recipe, "parcels", b"one", b"two")
    recipe.run(0)
    recipe.settle()
    arrive(recipe, "parcels", b"three")
    recipe.settle()
    recipe.names["query"].stop()
    forget_the_last_commit(str(recipe.folder / "parcels"))
    arrive(recipe, "parcels", b"four")
    recipe.run(1)
    recipe.settle()
    assert found(recipe, "sent-parcels") == [b"four", b"one", b"three", b"two"]
    assert not (recipe.folder / "parcels").exists()


def test_migration_from_the_stock_kafka_sink(recipe: Recipe) -> None:
    topics(recipe, "visits", "pages")
    arrive(recipe, "visits", b"one", b"two")
    recipe.run(0)
    recipe.ended()
    assert found(recipe, "pages") == [b"ONE", b"TWO"]
    arrive(recipe, "visits", b"three")
    recipe.run(1)
    recipe.settle()
    assert found(recipe, "pages") == [b"ONE", b"THREE", b"TWO"]


def test_secured_cluster_sasl_ssl(recipe: Recipe) -> None:
    topics(recipe, "claims", "checked-claims")
    arrive(recipe, "claims", b"one", b"two")
    recipe.run()
    recipe.settle()
    assert found(recipe, "checked-claims") == [b"one", b"two"]


@pytest.mark.whole
def test_availablenow_job(recipe: Recipe) -> None:
    """Three runs, the last one with nothing to do."""
    topics(recipe, "tickets", "archived-tickets")
    wanted: list[bytes] = []
    for new in ([b"one", b"two"], [b"three"], []):
        arrive(recipe, "tickets", *new)
        wanted = sorted([*wanted, *new])
        recipe.run()
        recipe.ended()
        assert found(recipe, "archived-tickets") == wanted


@pytest.mark.whole
def test_compacted_table(recipe: Recipe) -> None:
    topics(recipe, "sales")
    topics(recipe, "totals", cleanup__policy="compact")
    for each in ([("a", 1), ("b", 10), ("a", 2), ("gone", 5)], [("a", 4), ("c", 100)]):
        arrive(recipe, "sales", *(b'{"shop": "%s", "cents": %d}' % (shop.encode(), cents) for shop, cents in each))
        if "query" not in recipe.names:
            recipe.run(0)
        recipe.settle()
    changes = sorted((one.key(), one.value()) for one in records(recipe, "totals"))
    assert changes == [(b"a", b"3"), (b"a", b"7"), (b"b", b"10"), (b"c", b"100"), (b"gone", b"5")]
    sender = producer(recipe.broker.open_bootstrap, partitioner="murmur2_random")
    sender.produce("totals", key=b"gone", value=None)
    assert sender.flush(60) == 0
    recipe.run(1)
    rows = recipe.names["table"].collect()
    assert {row.shop: row.cents for row in rows} == {"a": 7, "b": 10, "c": 100}
    assert len(rows) == 3


@pytest.mark.whole
def test_lag_in_kafkas_tools(recipe: Recipe) -> None:
    """Offsets of the group as a client has them, and as Kafka's own tool shows them where its jars are."""
    topics(recipe, "events", "stored-events")
    arrive(recipe, "events", *(b"%d" % number for number in range(6)), partition=0)
    arrive(recipe, "events", *(b"%d" % number for number in range(6, 9)), partition=1)
    recipe.run(0)
    recipe.settle()
    recipe.names["query"].stop()
    arrive(recipe, "events", b"9", b"10", partition=0)
    assert found(recipe, "stored-events") == [b"%d" % number for number in range(9)]
    reader = consumer(recipe.broker.open_bootstrap, group__id="storing")
    offsets = reader.committed([TopicPartition("events", number) for number in (0, 1)], 60)
    reader.close()
    assert [where.offset for where in offsets] == [6, 3]
    command = recipe.text(1).split()
    if jars.is_complete("kafka"):
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        program = [str(jars.java()), *jars.SHORT_LIFE, "-cp", jars.class_path("kafka"), tool, *command[1:]]
        done = subprocess.run(program, capture_output=True, text=True, timeout=240, check=False)
        rows = [line.split() for line in done.stdout.splitlines() if " events " in line]
        assert sorted(row[2:6] for row in rows) == [["0", "6", "8", "2"], ["1", "3", "3", "0"]], done.stderr
    assert command[0] == "kafka-consumer-groups.sh"


@pytest.mark.whole
def test_metadata_columns_of_a_transaction(recipe: Recipe) -> None:
    """Two micro-batches, one transaction that was aborted, and one record in none."""
    topics(recipe, "entries")
    topics(recipe, "ledger", partitions=1)
    bootstrap = recipe.broker.open_bootstrap
    arrive(recipe, "entries", *(b"%d" % number for number in range(5)), partition=0)
    reading = recipe.spark.readStream.format("kafka-arrow").options(**options(bootstrap, {"subscribe": "entries"}))
    frame = reading.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 3).load().select("value")
    to = {"topic": "ledger", "checkpointLocation": str(recipe.folder / "entries")}
    writing = frame.writeStream.format("kafka-eos").options(**options(bootstrap, to))
    recipe.names["query"] = writing.trigger(availableNow=True).start()
    recipe.ended()
    aborted = producer(bootstrap, transactional__id="given-up")
    aborted.init_transactions(60)
    aborted.begin_transaction()
    aborted.produce("ledger", b"never seen")
    aborted.flush(60)
    aborted.abort_transaction(60)
    write(bootstrap, "ledger", [b"alone"], enable__idempotence=False)
    until_nothing_is_open(bootstrap, "ledger", 1)
    recipe.run()
    rows = recipe.names["by_transaction"].collect()
    assert [(row.transactional, row.records) for row in rows] == [(True, 3), (True, 2), (False, 1)]
    assert rows[0].producerId == rows[1].producerId and rows[0].producerEpoch < rows[1].producerEpoch
    assert [(row["first"], row["last"]) for row in rows[:2]] == [(0, 2), (4, 5)]
    assert rows[2].producerId is None
