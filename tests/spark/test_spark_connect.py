"""Under Spark Connect: both formats, and `eos_writer`, whose function runs in a process beside the server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.harness.broker import Target
from tests.harness.confluent import consumer, make_topic, read_all, values_of, write
from tests.spark.connect_server import ConnectServer
from tests.spark.eos_queries import BATCH, RECORDS, input_of, output_of
from tests.spark.outcome import right
from tests.spark.queries import finished, options
from tests.spark.session import NotHere, needed, settings_of_session
from tests.spark.test_eos_faults import forget_the_last_commit

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on a server of its own, with our formats in it."""
    pytest.importorskip("grpc", reason="needs PySpark's packages for Connect: run `make jars`")
    try:
        needed()
    except NotHere as reason:
        pytest.skip(str(reason))
    from spark_connector.register import register

    folder = tmp_path_factory.mktemp("connect")
    with ConnectServer(folder, settings_of_session(folder)) as server:
        session = server.session()
        register(session)
        yield session
        session.stop()


def start(session: Any, bootstrap: str, name: str, checkpoint: str, function: Any) -> Any:
    """From `<name>-in` in micro-batches, to their end."""
    reading = session.readStream.format("kafka-arrow").options(**options(bootstrap, {"subscribe": f"{name}-in"}))
    frame = reading.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", BATCH).load()
    column = f"if(cast(cast(value as string) as int) % 3 = 0, '{name}-dead', '{name}-out') topic"
    writing = frame.selectExpr("key", "value", column).writeStream.foreachBatch(function)
    return started(writing.option("checkpointLocation", checkpoint).trigger(availableNow=True))


def started(writing: Any) -> Any:
    """Spark gives the function's process ten seconds to come up, which on a loaded box may be too few."""
    from pyspark.errors import PySparkException

    for _ in range(10):
        try:
            return writing.start()
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
    raise AssertionError("no Python process comes up within ten seconds")


def test_many_writers_and_a_batch_in_doubt(connected: Any, target: Target, name: str, checkpoint: str) -> None:
    """Two topics in one transaction, offsets of a group; the second run replays a batch that is committed already."""
    from spark_connector.sink.foreach_batch import eos_writer

    bootstrap = target.bootstrap
    wanted = input_of(bootstrap, name)
    make_topic(bootstrap, f"{name}-dead", 3)
    given = {"kafka.bootstrap.servers": bootstrap, "checkpointLocation": checkpoint, "groupId": f"{name}-group"}
    topics = [f"{name}-out", f"{name}-dead"]
    finished(start(connected, bootstrap, name, checkpoint, eos_writer(given, topics=topics)))
    forget_the_last_commit(checkpoint)
    wanted.append(b"%04d" % RECORDS)
    write(bootstrap, f"{name}-in", wanted[-1:], partition=0)
    finished(start(connected, bootstrap, name, checkpoint, eos_writer(given, topics=topics)))
    right(bootstrap, name, [value for value in wanted if int(value) % 3])
    dead_letters = sorted(values_of(read_all(bootstrap, f"{name}-dead")))
    assert dead_letters == [value for value in wanted if not int(value) % 3]
    reader = consumer(bootstrap, group__id=f"{name}-group")
    offsets = reader.committed([TopicPartition(f"{name}-in", number) for number in range(3)], 30)
    reader.close()
    assert [where.offset for where in offsets] == [RECORDS // 3 + 1, RECORDS // 3, RECORDS // 3]


def test_a_function_that_fails_after_the_transaction(
    connected: Any, target: Target, name: str, checkpoint: str
) -> None:
    """The query ends with its words; the next start finds the marker and goes on."""
    from spark_connector.sink.foreach_batch import eos_writer

    bootstrap, flag = target.bootstrap, f"{checkpoint}.fault"
    wanted = input_of(bootstrap, name)
    make_topic(bootstrap, f"{name}-dead", 3)
    given = {"kafka.bootstrap.servers": bootstrap, "checkpointLocation": checkpoint}
    writer = eos_writer(given, topics=[f"{name}-out", f"{name}-dead"])

    def once_failing(frame: Any, batch: int) -> None:
        writer(frame, batch)
        if batch == 1 and not Path(flag).exists():
            Path(flag).touch()
            raise RuntimeError("a fault behind EndTxn")

    with pytest.raises(Exception, match="a fault behind EndTxn"):
        finished(start(connected, bootstrap, name, checkpoint, once_failing))
    assert len(output_of(bootstrap, name)) == 2 * BATCH * 2 // 3
    finished(start(connected, bootstrap, name, checkpoint, once_failing))
    right(bootstrap, name, [value for value in wanted if int(value) % 3])


def test_whose_batch_it_is_must_be_known(connected: Any, target: Target, name: str, checkpoint: str) -> None:
    """Nothing says it but the checkpoint, so that must be named, and be one of a query that runs."""
    from spark_connector.sink.foreach_batch import eos_writer

    bootstrap = target.bootstrap
    input_of(bootstrap, name)
    other = Path(f"{checkpoint}-other")
    other.mkdir()
    (other / "metadata").write_text('{"id": "00000000-0000-0000-0000-000000000000"}')
    for location, words in (
        ({}, "eos_writer needs option checkpointLocation"),
        ({"checkpointLocation": str(other)}, "does not run in this session"),
        ({"checkpointLocation": f"{checkpoint}-nowhere"}, "nowhere/metadata cannot be read"),
    ):
        writer = eos_writer({"kafka.bootstrap.servers": bootstrap, **location}, topics=[f"{name}-out", f"{name}-dead"])
        with pytest.raises(Exception, match=words):
            finished(start(connected, bootstrap, name, checkpoint, writer))
    assert output_of(bootstrap, name, read_committed=False) == []


def test_spark_does_not_tell_the_function_whose_batch_it_is(
    connected: Any, target: Target, name: str, checkpoint: str
) -> None:
    """In a classic session each task of a batch knows it. If this fails, there is a better way here, too."""
    input_of(target.bootstrap, name)

    def told(batches: Any) -> Any:
        import pyarrow as pa
        from pyspark import TaskContext

        for _ in batches:
            context = TaskContext.get()
            assert context is not None
            known = [str(context.getLocalProperty("sql.streaming.queryId"))]
            yield pa.RecordBatch.from_pydict({"known": known})

    def ask(frame: Any, batch: int) -> None:
        raise RuntimeError(f"the query is {frame.mapInArrow(told, 'known string').first().known}, it says")

    with pytest.raises(Exception, match="the query is None, it says"):
        finished(start(connected, target.bootstrap, name, checkpoint, ask))


def test_both_formats(connected: Any, target: Target, name: str, checkpoint: str) -> None:
    bootstrap = target.bootstrap
    wanted = input_of(bootstrap, name)
    for _ in range(2):
        reading = connected.readStream.format("kafka-arrow").options(**options(bootstrap, {"subscribe": f"{name}-in"}))
        frame = reading.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", BATCH).load()
        to = options(bootstrap, {"topic": f"{name}-out", "checkpointLocation": checkpoint})
        writing = frame.select("key", "value").coalesce(1).writeStream.format("kafka-eos").options(**to)
        finished(writing.trigger(availableNow=True).start())
        forget_the_last_commit(checkpoint)
    right(bootstrap, name, wanted)
