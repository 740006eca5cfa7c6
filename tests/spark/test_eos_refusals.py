"""What would silently break the guarantee is refused, in a sentence that reaches the user of the query."""

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from protocol.codec import encode_bytes
from protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.harness.confluent import make_topic, read_all, values_of, wait_until, write
from tests.spark.queries import SECONDS, finished, options, stream
from tests.spark.test_eos_faults import forget_the_last_commit


def eos(frame: Any, bootstrap: str, **more: Any) -> Any:
    return frame.writeStream.format("kafka-eos").options(**options(bootstrap, more))


def rows(spark: Any, bootstrap: str, name: str) -> Any:
    make_topic(bootstrap, f"{name}-in")
    make_topic(bootstrap, f"{name}-out")
    write(bootstrap, f"{name}-in", [b"x"])
    return stream(spark, bootstrap, subscribe=f"{name}-in").select("value")


def test_real_time_mode_is_refused_by_spark(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """It lists the sinks that it takes; ours is not one of them."""
    frame = rows(spark, bootstrap, name)
    writer = eos(frame, bootstrap, topic=f"{name}-out", checkpointLocation=checkpoint).outputMode("update")
    with pytest.raises(Exception, match=r"(?i)real.?time"):
        finished(writer.trigger(realTime="5 seconds").start())
    assert read_all(bootstrap, f"{name}-out") == []


def test_output_mode_update_is_refused_by_spark(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """It wants an interface of Java's that Python sinks do not have. `complete` writes the whole result again with each
    micro-batch, as with the stock sink.
    """
    topic = make_topic(bootstrap, f"{name}-in")
    make_topic(bootstrap, f"{name}-out")
    words = stream(spark, bootstrap, subscribe=topic).selectExpr("cast(value as string) word")
    frame = words.groupBy("word").count().selectExpr("concat(word, '-', count) value")
    to = {"topic": f"{name}-out", "checkpointLocation": checkpoint}
    write(bootstrap, topic, [b"a", b"b"])
    with pytest.raises(Exception, match=r"(?i)update"):
        finished(eos(frame, bootstrap, **to).outputMode("update").trigger(availableNow=True).start())
    assert read_all(bootstrap, f"{name}-out") == []
    to["checkpointLocation"] = f"{checkpoint}-complete"
    for _ in range(2):
        finished(eos(frame, bootstrap, **to).outputMode("complete").trigger(availableNow=True).start())
        write(bootstrap, topic, [b"a"])
    assert sorted(values_of(read_all(bootstrap, f"{name}-out"))) == [b"a-1", b"a-2", b"b-1", b"b-1"]


def test_no_epoch_of_continuous_mode_is_committed(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Spark hands no rows to Python sinks there and would go on without them. The query stands still, the driver's log
    says why, and a query in micro-batches writes everything.
    """
    frame = stream(spark, bootstrap, subscribe=make_topic(bootstrap, f"{name}-in")).select("value")
    make_topic(bootstrap, f"{name}-out")
    write(bootstrap, f"{name}-in", [b"x"])
    to = {"topic": f"{name}-out", "checkpointLocation": checkpoint, "faultFlag": f"{checkpoint}.fault"}
    query = eos(frame, bootstrap, **to).format("kafka-eos-faulty").trigger(continuous="200 milliseconds").start()
    refused = Path(f"{checkpoint}.fault.refused")
    try:
        wait_until(lambda: query.exception() or refused.exists(), "the refusal", seconds=SECONDS)
    finally:
        query.stop()
    assert refused.read_text().startswith("NotMicroBatches") and "continuous" in refused.read_text()
    assert [path for path in (Path(checkpoint) / "commits").iterdir() if path.name.isdigit()] == []
    to["checkpointLocation"] = f"{checkpoint}-batches"
    finished(eos(frame, bootstrap, **to).trigger(availableNow=True).start())
    assert values_of(read_all(bootstrap, f"{name}-out")) == [b"x"]


def test_a_checkpoint_that_is_set_by_configuration(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """The sink has no option that names it. The driver's JVM knows where it lies, and Spark says whose it is."""
    frame = rows(spark, bootstrap, name)
    spark.conf.set("spark.sql.streaming.checkpointLocation", checkpoint)
    try:
        for _ in range(2):
            named = eos(frame, bootstrap, topic=f"{name}-out", groupId=f"{name}-group").queryName(name)
            finished(named.trigger(availableNow=True).start())
            forget_the_last_commit(f"{checkpoint}/{name}")
        assert values_of(read_all(bootstrap, f"{name}-out")) == [b"x"]
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


class _Answer(socketserver.StreamRequestHandler):
    """Answers ApiVersions with Produce, Fetch, Metadata and itself, and Metadata with the only broker there is."""

    def handle(self) -> None:
        while len(size := self.rfile.read(4)) == 4:
            request = self.rfile.read(struct.unpack(">i", size)[0])
            key, version = struct.unpack(">hh", request[:4])
            body = request[4:8] + (self._metadata(version) if key == METADATA else self._versions())
            self.wfile.write(struct.pack(">i", len(body)) + body)

    def _versions(self) -> bytes:
        listed = b"".join(struct.pack(">hhhB", key, 0, highest, 0) for key, highest in _LISTED)
        return struct.pack(">hB", 0, len(_LISTED) + 1) + listed + struct.pack(">iB", 0, 0)

    def _metadata(self, version: int) -> bytes:
        host, port = self.connection.getsockname()
        itself = MetadataResponseBroker(node_id=1, host=host, port=port)
        return b"\0" + encode_bytes(MetadataResponse(brokers=[itself], topics=[]), version)


METADATA = 3
_LISTED = ((0, 9), (1, 12), (METADATA, 12), (18, 4))


@contextmanager
def broker_without_transactions() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Answer) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


def test_a_broker_without_transactions(spark: Any) -> None:
    """It lists no InitProducerId. Writing there without a word would be at least once."""
    frame = spark.range(3).selectExpr("cast(id as string) value")
    with broker_without_transactions() as bootstrap:
        writer = frame.write.mode("append").format("kafka-eos").options(**options(bootstrap, {"topic": "t"}))
        with pytest.raises(Exception, match="it has no transactions"):
            writer.save()
