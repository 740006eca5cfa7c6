"""Topics that are deleted under a query, and made anew: what Spark's own source and sink do, and what ours do.

Nobody can read what is gone. What is required here is that a query never goes on as if nothing had been, that what it
says is clear, and that it comes back once the topic does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_connector.source.lookups import Lookups
from spark_connector.source.settings import settings_of
from tests.harness.confluent import SECONDS, admin, make_topic, wait_until, write
from tests.spark import queries
from tests.spark.eos_queries import BATCH, RECORDS, eos_query, input_of, output_of, run_eos
from tests.spark.faulty_writer import many_query, writer
from tests.spark.outcome import flag_of, right
from tests.spark.queries import Seen, finished, run_to_end, start, stream, until_seen
from tests.spark.test_stock_batch import fill, numbered

SOURCES = ["kafka", "kafka-arrow"]
IMPATIENT = {"kafkaConsumer.pollTimeoutMs": 3000}
AT_ONCE = {"kafka.delivery.timeout.ms": 10_000}
GONE = ("does not host this topic-partition", "create it", "failOnDataLoss")
LOST = "failOnDataLoss"


def delete(bootstrap: str, topic: str) -> None:
    """Returns when it is gone; nothing but us makes topics here."""
    asker = admin(bootstrap)
    asker.delete_topics([topic])[topic].result(SECONDS)
    wait_until(lambda: topic not in asker.list_topics(timeout=SECONDS).topics, f"the end of {topic}")


def failure_of(query: Any) -> str:
    """What a query fails with, once it does."""
    return str(wait_until(query.exception, "the query's failure", seconds=queries.SECONDS))


@contextmanager
def reading(frame: Any, checkpoint: str, seen: Seen) -> Iterator[Any]:
    """A query that has shown the first fifty records."""
    query = start(frame, checkpoint, seen)
    try:
        until_seen(query, seen, numbered(50, "0-"))
        yield query
    finally:
        query.stop()


@pytest.mark.parametrize("fail", [pytest.param("true", marks=pytest.mark.whole), "false"])
@pytest.mark.parametrize("source", [pytest.param("kafka", marks=pytest.mark.whole), "kafka-arrow"])
def test_a_topic_that_is_named_and_deleted_ends_the_query(
    spark: Any, bootstrap: str, name: str, checkpoint: str, source: str, fail: str
) -> None:
    """Whatever failOnDataLoss says: there is nothing to subscribe to."""
    fill(bootstrap, name, 1, 50)
    with reading(stream(spark, bootstrap, source, subscribe=name, failOnDataLoss=fail), checkpoint, Seen()) as query:
        delete(bootstrap, name)
        failure = failure_of(query)
        assert any(words in failure for words in GONE), failure


@pytest.mark.whole
@pytest.mark.parametrize("source", SOURCES)
def test_a_deleted_topic_of_a_pattern_is_data_loss(
    spark: Any, bootstrap: str, name: str, checkpoint: str, source: str
) -> None:
    make_topic(bootstrap, f"{name}-stays")
    fill(bootstrap, f"{name}-goes", 1, 50)
    with reading(stream(spark, bootstrap, source, subscribePattern=f"{name}-.*"), checkpoint, Seen()) as query:
        delete(bootstrap, f"{name}-goes")
        assert LOST in failure_of(query)


@pytest.mark.whole
@pytest.mark.parametrize("source", SOURCES)
def test_accepted_loss_keeps_the_other_topics_of_a_pattern(
    spark: Any, bootstrap: str, name: str, checkpoint: str, source: str
) -> None:
    """And a topic that comes back under the same name is read from its beginning: it was seen to be gone."""
    make_topic(bootstrap, f"{name}-stays")
    fill(bootstrap, f"{name}-goes", 1, 50)
    seen = Seen()
    accepted = {"subscribePattern": f"{name}-.*", "failOnDataLoss": "false"}
    with reading(stream(spark, bootstrap, source, **accepted), checkpoint, seen) as query:
        delete(bootstrap, f"{name}-goes")
        write(bootstrap, f"{name}-stays", numbered(10, "beside-"))
        until_seen(query, seen, numbered(10, "beside-"))
        write(bootstrap, make_topic(bootstrap, f"{name}-goes"), numbered(20, "anew-"))
        until_seen(query, seen, numbered(20, "anew-"))
        assert len(seen.rows()) == 80


def test_a_topic_made_anew_has_another_id(bootstrap: str, name: str) -> None:
    """By which kafka-arrow knows it from the one before, however long it is."""
    make_topic(bootstrap, name)
    lookups = Lookups(settings_of({"kafka.bootstrap.servers": bootstrap, "subscribe": name}, stream=True))
    ids = []
    for _ in range(2):
        lookups.partitions()
        ids.append(lookups.topic_ids[name])
    delete(bootstrap, name)
    make_topic(bootstrap, name)
    lookups.partitions()
    assert ids[0] == ids[1] != lookups.topic_ids[name]


@pytest.mark.whole
@pytest.mark.parametrize(("source", "left_out"), [("kafka", 20), ("kafka-arrow", 50)])
def test_accepted_loss_reads_a_recreated_topic_from_a_later_offset(
    spark: Any, bootstrap: str, name: str, checkpoint: str, source: str, left_out: int
) -> None:
    """Spark's source goes on at the end that it meets. Ours waits until the topic is as long as the one before: an end
    that went back may also be a broker that does not know better yet, and nothing may come twice.
    """
    fill(bootstrap, name, 1, 50)
    frame = stream(spark, bootstrap, source, subscribe=name, failOnDataLoss="false")
    assert len(run_to_end(frame, checkpoint).values()) == 50
    delete(bootstrap, name)
    fill(bootstrap, name, 1, 20)
    assert run_to_end(frame, checkpoint).values() == []
    write(bootstrap, name, numbered(60, "more-"), partition=0)
    anew = [*numbered(20, "0-"), *numbered(60, "more-")]
    assert run_to_end(frame, checkpoint).values() == anew[left_out:]


@pytest.mark.whole
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_started_batch_that_became_unreadable(
    spark: Any, bootstrap: str, name: str, checkpoint: str, fail: str, again: bool
) -> None:
    """The checkpoint holds its offsets; a restart must read them. Without the topic it cannot; with a shorter one it
    says so, or goes on if loss is accepted. What the sink has stays as it is.
    """
    input_of(bootstrap, name)
    faulty = {"fault": "raise@written", "faultFlag": flag_of(checkpoint), "source": "kafka-arrow"}
    with pytest.raises(Exception, match=r"."):
        run_eos(spark, bootstrap, name, checkpoint, "kafka-eos-faulty", **faulty)
    delete(bootstrap, f"{name}-in")
    if again:
        make_topic(bootstrap, f"{name}-in", 3)
    frame = stream(
        spark, bootstrap, "kafka-arrow", subscribe=f"{name}-in", failOnDataLoss=fail, **IMPATIENT
    ).selectExpr("key", "value")
    to = queries.options(bootstrap, {"topic": f"{name}-out", "checkpointLocation": checkpoint})
    query = frame.writeStream.format("kafka-eos").options(**to).trigger(availableNow=True).start()
    if again and fail == "false":
        finished(query)
    else:
        with pytest.raises(Exception, match=LOST if again else "(?i)create"):
            finished(query)
    assert len(output_of(bootstrap, name)) == BATCH


@pytest.mark.whole
@pytest.mark.parametrize("step", ["written", "opened", "marked"])
def test_the_target_is_deleted_in_the_middle_of_a_batch(
    spark: Any, bootstrap: str, name: str, checkpoint: str, step: str
) -> None:
    """What was in it is gone, the batch that was open may be among that; but nothing hangs, the query says what is
    missing, and goes on with the next batch when it is there again.
    """
    wanted = input_of(bootstrap, name)
    fault = {"fault": f"wait@{step}", "faultFlag": flag_of(checkpoint), **AT_ONCE}
    query = eos_query(spark, bootstrap, name, checkpoint, "kafka-eos-faulty", **fault)
    flag = Path(flag_of(checkpoint))
    wait_until(lambda: query.exception() or flag.exists(), "the fault", seconds=queries.SECONDS)
    delete(bootstrap, f"{name}-out")
    flag.with_name(f"{flag.name}.go").touch()
    assert "create the topic" in failure_of(query).lower()
    make_topic(bootstrap, f"{name}-out", 3)
    run_eos(spark, bootstrap, name, checkpoint)
    found = output_of(bootstrap, name)
    # The other tasks of a batch that one has written may have come too late: then all of them write it again.
    begun = {"opened": [1], "written": [1, 2], "marked": [2]}[step]
    assert len(found) in [RECORDS - batches * BATCH for batches in begun]
    right(bootstrap, name, [value for value in wanted if value in set(found)])


@pytest.mark.whole
def test_the_target_of_many_writers_is_deleted(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    input_of(bootstrap, name)
    function = writer(bootstrap, name, checkpoint, **AT_ONCE)
    finished(many_query(spark, bootstrap, name, function, checkpoint))
    delete(bootstrap, f"{name}-out")
    write(bootstrap, f"{name}-in", [b"later"], partition=0)
    with pytest.raises(Exception, match=r"(?i)create the topic"):
        finished(many_query(spark, bootstrap, name, function, checkpoint))
    make_topic(bootstrap, f"{name}-out", 3)
    finished(many_query(spark, bootstrap, name, function, checkpoint))
    right(bootstrap, name, [b"later"])
