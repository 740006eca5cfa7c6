"""Two sessions of one driver: each knows the formats, and a checkpoint that both run is still one query's."""

from collections.abc import Iterator
from typing import Any

import pytest

from spark_connector.register import register
from spark_connector.sink.foreach_batch import eos_writer
from tests.harness.confluent import make_topic, read_all, values_of, wait_until
from tests.spark.eos_queries import RECORDS, input_of, output_of
from tests.spark.outcome import right
from tests.spark.queries import SECONDS, options, stream


@pytest.fixture
def other(spark: Any) -> Iterator[Any]:
    """Another session, which knows the formats. Afterwards the first is the thread's again."""
    session = spark.newSession()
    register(session)
    yield session
    register(spark)


def test_both_know_the_formats(spark: Any, other: Any, bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    for number, session in enumerate((other, spark, other)):
        register(session)
        frame = session.range(1).selectExpr(f"'{number}' value").coalesce(1)
        to = options(bootstrap, {"topic": name})
        frame.write.mode("append").format("kafka-eos").options(**to).save()
    assert sorted(values_of(read_all(bootstrap, name))) == [b"0", b"1", b"2"]


@pytest.mark.whole
@pytest.mark.parametrize("many", [False, True])
def test_a_checkpoint_that_both_run(
    spark: Any, other: Any, bootstrap: str, name: str, checkpoint: str, many: bool
) -> None:
    """The second takes over in the middle; whether Spark or a fence ends the first, each row is there once."""
    wanted = input_of(bootstrap, name)
    to = options(bootstrap, {"topic": f"{name}-out", "checkpointLocation": checkpoint})

    def start(session: Any) -> Any:
        register(session)
        frame = stream(session, bootstrap, subscribe=f"{name}-in", maxOffsetsPerTrigger=10).select("key", "value")
        writing = (frame if many else frame.coalesce(1)).writeStream.options(**to)
        return (writing.foreachBatch(eos_writer(to)) if many else writing.format("kafka-eos")).start()

    first = start(spark)
    try:
        wait_until(lambda: first.exception() or first.lastProgress, "a batch", seconds=SECONDS)
        second = start(other)
        try:
            all_there = lambda: second.exception() or len(output_of(bootstrap, name)) >= RECORDS  # noqa: E731
            wait_until(all_there, "every row", seconds=SECONDS)
        finally:
            second.stop()
    finally:
        first.stop()
    right(bootstrap, name, wanted)
