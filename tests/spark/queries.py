"""Running Spark queries in tests: a batch read, a stream run to its end, a stream that goes on, and what they saw."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.harness.confluent import wait_until

SECONDS = 240  # Never what a test measures: a loaded box starts Python workers slowly.


def options(bootstrap: str, more: Mapping[str, Any]) -> dict[str, str]:
    """Reader or writer options: `kafka__isolation__level` stands for `kafka.isolation.level`."""
    return {"kafka.bootstrap.servers": bootstrap} | {key.replace("__", "."): str(more[key]) for key in more}


def read(spark: Any, bootstrap: str, **more: Any) -> Any:
    return spark.read.format("kafka").options(**options(bootstrap, more)).load()


def stream(spark: Any, bootstrap: str, source: str = "kafka", **more: Any) -> Any:
    defaults = {"startingOffsets": "earliest"} if not any(key.startswith("starting") for key in more) else {}
    return spark.readStream.format(source).options(**options(bootstrap, defaults | more)).load()


def values(frame: Any) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


class Seen:
    """A `foreachBatch` that keeps the rows of each batch; a replayed batch takes the place of its first try."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, frame: Any, batch_id: int) -> None:
        rows = frame.collect()
        with self._lock:
            self.batches[batch_id] = rows

    def rows(self) -> list[Any]:
        with self._lock:
            return [row for batch_id in sorted(self.batches) for row in self.batches[batch_id]]

    def values(self) -> list[bytes]:
        return sorted(bytes(row.value) for row in self.rows())


def run_to_end(frame: Any, checkpoint: str, seen: Seen | None = None) -> Seen:
    """Everything that is there now, through `availableNow`."""
    seen = seen or Seen()
    query = start(frame, checkpoint, seen, availableNow=True)
    finished(query)
    return seen


def start(frame: Any, checkpoint: str, seen: Seen, **trigger: Any) -> Any:
    writer = frame.writeStream.foreachBatch(seen).option("checkpointLocation", checkpoint)
    return writer.trigger(**(trigger or {"processingTime": "100 milliseconds"})).start()


def finished(query: Any) -> None:
    """Wait for the end of a query; raises what the query failed with."""
    if not query.awaitTermination(SECONDS):
        query.stop()
        raise AssertionError(f"the query did not end within {SECONDS} s: {query.status}")


def until_seen(query: Any, seen: Seen, wanted: Iterable[bytes]) -> None:
    """Wait until a running query has seen all of these, or has failed."""
    missing = Counter(wanted)

    def all_there() -> bool:
        if query.exception() is not None:
            raise query.exception()
        return not missing - Counter(seen.values())

    wait_until(all_there, "every record in the query", seconds=SECONDS)
