"""Queries into the exactly-once sink, in this process's session or in a driver of its own that may be killed."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.harness.confluent import make_topic, read_all, values_of, write
from tests.spark.queries import SECONDS, finished, options, stream
from tests.spark.session import ROOT, new_session, register_everything, worker_environment

BATCH = 30
RECORDS = 4 * BATCH
PATIENCE_MS = 200_000
"""How long a killed broker is waited for: Apache Kafka takes a while to come back, on a loaded box a long one."""


def input_of(bootstrap: str, name: str) -> list[bytes]:
    """A source topic of four micro-batches and an empty target; the values."""
    make_topic(bootstrap, f"{name}-in", 3)
    make_topic(bootstrap, f"{name}-out", 3)
    values = [f"{number:04d}".encode() for number in range(RECORDS)]
    for partition in range(3):
        write(bootstrap, f"{name}-in", values[partition::3], partition=partition)
    return values


def eos_query(spark: Any, bootstrap: str, name: str, checkpoint: str, sink: str = "kafka-eos", **more: Any) -> Any:
    """From `<name>-in` to `<name>-out` in four micro-batches, `availableNow`. Started. Option `source` is a format;
    `tasks` makes them fewer than the three of the source.
    """
    tasks = more.pop("tasks", None)
    source = more.pop("source", "kafka")
    patience = {"kafka.default.api.timeout.ms": PATIENCE_MS} if source == "kafka" else {}
    every = stream(spark, bootstrap, source, subscribe=f"{name}-in", maxOffsetsPerTrigger=BATCH, **patience)
    frame = every.selectExpr("key", "value")
    frame = frame if tasks is None else frame.coalesce(tasks)
    where = {"topic": f"{name}-out", "checkpointLocation": checkpoint, "kafka.delivery.timeout.ms": PATIENCE_MS}
    to = options(bootstrap, where | more)
    return frame.writeStream.format(sink).options(**to).trigger(availableNow=True).start()


def run_eos(spark: Any, bootstrap: str, name: str, checkpoint: str, sink: str = "kafka-eos", **more: Any) -> Any:
    query = eos_query(spark, bootstrap, name, checkpoint, sink, **more)
    finished(query)
    return query


def output_of(bootstrap: str, name: str, *, read_committed: bool = True) -> list[bytes]:
    return sorted(values_of(read_all(bootstrap, f"{name}-out", read_committed=read_committed)))


def run_driver(bootstrap: str, name: str, checkpoint: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    """The same query in a driver process of its own. With `fault=jvm@step` or `driver@step` it kills its own JVM or
    itself there; returns when all of it is gone.
    """
    arguments = json.dumps({"bootstrap": bootstrap, "name": name, "checkpoint": checkpoint, **more})
    command = [sys.executable, "-m", "tests.spark.eos_queries", arguments]
    environment = worker_environment() | {"PATH": _path(), "TALLYSTICK_DRIVER": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=3 * SECONDS, check=False)


def _path() -> str:
    import os

    return os.environ["PATH"]


def main(arguments: dict[str, Any]) -> None:
    """The driver."""
    import os

    with tempfile.TemporaryDirectory() as folder:
        spark = new_session(Path(folder))
        register_everything(spark)
        action, _, step = arguments.pop("fault", "none@never").partition("@")
        whom = {"jvm": spark.sparkContext._gateway.proc.pid, "driver": os.getpid()}
        fault = {"fault": f"pid@{step}", "faultPid": whom[action]} if action in whom else {"fault": f"{action}@{step}"}
        run_eos(spark, sink="kafka-eos-faulty", **arguments, **fault)
        spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
