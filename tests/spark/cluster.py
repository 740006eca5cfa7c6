"""A Spark cluster of two machines, as it looks to Spark: a master, and two workers on loopback addresses.

Spark gives a second attempt of a slow task to another host only. So sessions on one host (`local`, `local-cluster`)
never speculate, whatever their settings say.
"""

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from tests.harness.confluent import wait_until
from tests.spark.queries import SECONDS
from tests.spark.session import worker_environment

HOSTS = ("127.0.0.2", "127.0.0.3")
SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "30s",  # Without it a stage of one task is never looked at.
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.task.maxFailures": "8",
}


class Cluster:
    """Started with `with`; gone, executors and all, at its end."""

    def __init__(self, folder: Path) -> None:
        self.master = ""
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Cluster":
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._run("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
            self.master = self._said("master", r"Starting Spark master at (spark://\S+)")
            for host in HOSTS:
                work = ["--work-dir", str(self._folder / "work" / host)]
                self._run(host, "worker.Worker", self.master, "--host", host, "--cores", "1", "--memory", "1g", *work)
            for host in HOSTS:
                self._said(host, "Successfully registered with master (.)")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """In order: a worker that is stopped takes its executors along."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, name: str, main: str, *arguments: str) -> None:
        found = find_spec("pyspark")
        assert found is not None and found.origin is not None
        command = ["bash", str(Path(found.origin).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false"}
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments, "--webui-port", "0"],
                    env={**os.environ, **worker_environment(), **small},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _said(self, name: str, words: str) -> str:
        """What stands in a log behind some words, once it does."""
        log, process = self._folder / f"{name}.log", self._processes[-1]

        def found() -> str | None:
            text = log.read_text(errors="replace")
            assert process.poll() is None, text[-3000:]
            met = re.search(words, text)
            return met.group(1) if met else None

        return str(wait_until(found, f"{words} in {log}", seconds=SECONDS))
