"""The driver: a process with Spark and the queries of a run in it, made to be killed.

It starts again what has failed, on the same checkpoint, and reports to the director in JSON lines; a line on
its standard input stops it, and so does the end of that.
"""

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.cdc import query as cdc
from spark_connector.pipelines.cdc import table_query
from spark_connector.pipelines.settings import Settings
from spark_connector.pipelines.transfers import query as transfers
from spark_connector.pipelines.windows import query as windows
from tests.pipelines.batch_log import last_committed
from tests.pipelines.session import new_session

Start = Callable[[SparkSession, Settings], StreamingQuery]
QUERIES: dict[str, dict[str, Start]] = {
    "transfers": {"transfers": transfers.start},
    "windows": {"windows": windows.start},
    "cdc": {"cdc": cdc.start, "table": table_query.start},
}
LOOK_SECONDS = 0.2


def report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Driver:
    """All queries of a run, in one session."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._settings = settings
        self._starts: dict[str, Start] = {}
        for name in settings.pipelines:
            self._starts |= QUERIES[name]
        self._queries: dict[str, StreamingQuery] = {}
        self._told: dict[str, tuple[str, int]] = {}

    def start(self) -> None:
        self._tell_state()
        for name, start in self._starts.items():
            self._queries[name] = start(self._spark, self._settings)

    def look(self) -> None:
        """Report new micro-batches; start again what has ended."""
        for name, query in list(self._queries.items()):
            for progress in query.recentProgress:
                self._tell(name, progress)
            if query.isActive:
                continue
            report(failed=name, why=_reason(query.exception()))
            if name == "windows":
                self._tell_state()
            self._queries[name] = self._starts[name](self._spark, self._settings)

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()
        self._spark.stop()

    def _tell_state(self) -> None:
        """What the state store holds now, for the verdict to compare."""
        if "windows" not in self._starts:
            return
        batch = last_committed(self._settings.checkpoint("windows"))
        if batch is not None:
            found = windows.open_windows(self._spark, self._settings, batch.number)
            report(state={"batch": batch.number, "open": found})

    def _tell(self, name: str, progress: Any) -> None:
        place = (str(progress.runId), int(progress.batchId))
        known = self._told.get(name)
        if known is not None and known[0] == place[0] and known[1] >= place[1]:
            return
        self._told[name] = place
        if progress.numInputRows and "addBatch" in progress.durationMs:
            took_ms = progress.durationMs["triggerExecution"]
            rows = progress.numInputRows
            report(batch={"query": name, "number": place[1], "at": progress.timestamp, "ms": took_ms, "rows": rows})


def _reason(error: object) -> str:
    """The line of Spark's long answer that says it best: a crash, else the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "crashed" in line), lines[0] if lines else "")[:300]


def main(argument: str) -> None:
    settings = Settings.from_json(argument)
    over = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    spark = new_session(settings)
    report(jvm=spark.sparkContext._gateway.proc.pid)
    driver = Driver(spark, settings)
    driver.start()
    report(ready=True)
    while not over.wait(LOOK_SECONDS):
        driver.look()
    driver.look()
    driver.stop()
    report(stopped=True)


if __name__ == "__main__":
    main(sys.argv[1])
