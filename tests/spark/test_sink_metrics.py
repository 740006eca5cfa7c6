"""What the sink's batches came to, told to the driver's program in time for Spark's listeners."""

import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_connector.metrics import sink_metrics, with_sink_metrics
from tests.harness.confluent import wait_until
from tests.spark.eos_queries import BATCH, RECORDS, eos_query, input_of, output_of, run_eos
from tests.spark.queries import SECONDS, finished


class Listening(StreamingQueryListener):
    """Keeps the metrics of each progress, looked up while Spark tells of it. A session's listener hears of every query,
    also of the last words of one that has ended: by query.
    """

    def __init__(self) -> None:
        self.seen: dict[str, dict[int, Any]] = defaultdict(dict)
        self.lock = threading.Lock()

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        told = with_sink_metrics(event.progress)
        with self.lock:
            self.seen[str(event.progress.id)][told["batchId"]] = told["sink"].get("metrics")

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass


def test_each_batch_has_its_transaction_bytes_and_times(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    wanted = input_of(bootstrap, name)
    listening = Listening()
    spark.streams.addListener(listening)
    try:
        query = run_eos(spark, bootstrap, name, checkpoint)
        batches = RECORDS // BATCH
        wait_until(lambda: len(listening.seen[query.id]) >= batches, "Spark's listener", seconds=SECONDS)
    finally:
        spark.streams.removeListener(listening)
    assert output_of(bootstrap, name) == wanted
    found = sink_metrics(query.id)
    assert [(one.batch, one.records, one.is_replay) for one in found] == [(n, BATCH, False) for n in range(batches)]
    assert {one.transactional_id for one in found} == {f"spark-{query.id}"}
    assert all(one.size_bytes > BATCH * len(wanted[0]) and one.commit_ms >= 0 and one.retries >= 0 for one in found)
    assert listening.seen[query.id] == {one.batch: one.as_spark() for one in found}


def test_a_batch_that_was_there_already_is_told_as_a_replay(
    spark: Any, bootstrap: str, name: str, checkpoint: str, tmp_path: Path
) -> None:
    """The first try fails after EndTxn, before anybody hears of it."""
    wanted = input_of(bootstrap, name)
    faulty = {"fault": "raise@ended", "faultFlag": str(tmp_path / "flag")}
    query = eos_query(spark, bootstrap, name, checkpoint, sink="kafka-eos-faulty", **faulty)
    with pytest.raises(Exception, match="a fault at ended"):
        finished(query)
    run_eos(spark, bootstrap, name, checkpoint)
    assert output_of(bootstrap, name) == wanted
    told = [(one.batch, one.is_replay, one.records) for one in sink_metrics(query.id)]
    assert told == [(0, False, BATCH), (1, True, 0), (2, False, BATCH), (3, False, BATCH)]
