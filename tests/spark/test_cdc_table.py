"""The table of the pipeline cdc when a micro-batch is run again, and when an earlier driver is late, in a process with
Delta's jars. Kills at any moment are for `make pipelines`.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import lit, struct, udf

from spark_connector.pipelines.cdc.table_query import into_delta, start
from spark_connector.pipelines.settings import DELTA, PARQUET, Settings
from tests.harness.confluent import make_topic
from tests.pipelines.cdc.delta_log import batches_of
from tests.pipelines.cdc.pipeline import rows_of
from tests.pipelines.needs import why_not_delta
from tests.pipelines.session import new_session
from tests.spark.session import ROOT, worker_environment

FIRST = [(1, 1, "a"), (2, 1, "b"), (3, 1, "c"), (3, 2, "d")]
THEN = [(1, 2, None), (2, 2, "e"), (4, 1, "f"), (5, 1, None)]
AFTER_BOTH = [(2, 2, "e"), (3, 2, "d"), (4, 1, "f")]


class Queries:
    """A process that runs the query up to what there is, each time it is told to."""

    def __init__(self, settings: Settings) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.test_cdc_table", settings.to_json()],
            cwd=ROOT,
            env={**os.environ, **worker_environment()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Queries":
        return self

    def __exit__(self, *problem: object) -> None:
        with self._process:
            self._process.communicate()

    def tell(self, what: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return next(line for line in self._process.stdout if line.startswith("said "))


def write(settings: Settings, changes: list[tuple[int, int, str | None]]) -> None:
    sender = Producer({"bootstrap.servers": settings.bootstrap})
    for account, version, owner in changes:
        value = None if owner is None else json.dumps({"owner": owner, "balance": account * version})
        headers = [("version", str(version).encode())]
        sender.produce(settings.topic("accounts_latest"), value, str(account).encode(), headers=headers)
    assert sender.flush(60) == 0


def rows(settings: Settings, done: int) -> list[tuple[int, int, str]]:
    return sorted((row.account, row.version, row.owner) for row in rows_of(settings, done))


@pytest.mark.whole
@pytest.mark.parametrize("table_format", [DELTA, PARQUET])
def test_a_micro_batch_that_is_run_again_changes_nothing(
    table_format: str, bootstrap: str, name: str, tmp_path: Path
) -> None:
    if table_format == DELTA and (reason := why_not_delta()):
        pytest.skip(reason)
    settings = Settings(bootstrap, str(tmp_path), (), prefix=f"{name}-", table_format=table_format)
    make_topic(bootstrap, settings.topic("accounts_latest"))
    write(settings, FIRST)
    with Queries(settings) as queries:
        queries.tell("run")
        assert rows(settings, 1) == [(1, 1, "a"), (2, 1, "b"), (3, 2, "d")]
        write(settings, THEN)
        queries.tell("run")
        assert rows(settings, 2) == AFTER_BOTH
        # As if the driver had died before Spark noted the batch as done.
        for file in ("1", ".1.crc"):
            (Path(settings.checkpoint("table")) / "commits" / file).unlink()
        queries.tell("run")
        assert (Path(settings.checkpoint("table")) / "commits" / "1").exists()
        assert rows(settings, 2) == AFTER_BOTH
        if table_format == DELTA:
            assert batches_of(Path(settings.table())) == [0, 1]
            assert "ConcurrentTransactionException" in queries.tell("race")
            assert batches_of(Path(settings.table())) == [0, 1, 2]
            assert rows(settings, 3) == [*AFTER_BOTH, (9, 2, "the later")]


def race(spark: SparkSession, settings: Settings) -> str:
    """Two drivers with one batch: the first has begun, and commits when the second has. What the first is told."""
    begun, go = Path(settings.folder) / "begun", Path(settings.folder) / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    query = json.loads((Path(settings.checkpoint("table")) / "metadata").read_text())["id"]
    told: list[str] = []

    @udf("string")
    def held_up(owner: str) -> str:
        begun.write_text(".")
        go.read_text()
        return owner

    def write_change(session: SparkSession, version: int, owner: Column) -> None:
        row = struct(owner.alias("owner"), lit(1).cast("long").alias("balance"))
        numbers = session.sql(f"select 9L as account, {version}L as version, false as deleted from range(1)")
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", query)
        into_delta(numbers.withColumn("row", row), 2, settings.table())

    def first() -> None:
        try:
            write_change(spark.newSession(), 1, held_up(lit("the earlier")))
        except Exception as refused:
            told.append(f"{type(refused).__name__} {refused}".replace("\n", " "))

    earlier = threading.Thread(target=first)
    earlier.start()
    begun.read_text()
    write_change(spark, 2, lit("the later"))
    go.write_text(".")
    earlier.join()
    return told[0] if told else "nothing"


def main(argument: str) -> None:
    settings = Settings.from_json(argument)
    spark = new_session(settings)
    for line in sys.stdin:
        said = "done"
        if line.strip() == "race":
            said = race(spark, settings)
        else:
            query = start(spark, settings)
            query.processAllAvailable()
            query.stop()
        print("said", said, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
