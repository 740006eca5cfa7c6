"""Drivers in processes of their own: killed with their JVM, two at once on one checkpoint, with retried tasks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness.confluent import wait_until
from tests.spark.eos_queries import run_eos
from tests.spark.faulty_writer import Fault, run_many
from tests.spark.queries import SECONDS
from tests.spark.session import ROOT, new_session, register_everything, worker_environment


class Driver:
    """Runs queries into the faulty sink (`many`: the one of many writers), one after the other. Started with `with`;
    gone, JVM and all, at its end.
    """

    def __init__(
        self,
        folder: Path,
        runs: Sequence[dict[str, Any]],
        master: str = "local[2]",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        arguments = {"runs": list(runs), "master": master, "folder": str(folder), "settings": dict(settings or {})}
        self._arguments = json.dumps(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Driver":
        environment = {**os.environ, **worker_environment()}
        with (self._folder / "driver.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.drivers", self._arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def wait(self) -> int:
        """The exit status, when all queries have ended or one of them has failed."""
        assert self._process is not None
        return self._process.wait(2 * SECONDS)

    def until(self, flag: str) -> None:
        """Wait until a query has met its fault."""
        assert self._process is not None
        process = self._process

        def met() -> bool:
            assert process.poll() is None or Path(flag).exists(), self.said()
            return Path(flag).exists()

        wait_until(met, "the fault", seconds=2 * SECONDS)

    def kill(self) -> None:
        """SIGKILL of the JVM and of the Python program, as when the machine is lost; workers live a little longer."""
        assert self._process is not None
        jvm = self._folder / "jvm.pid"
        if self._process.poll() is None and jvm.exists():
            os.kill(int(jvm.read_text()), signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def said(self) -> str:
        return (self._folder / "driver.log").read_text(errors="replace")[-6000:]


def main(arguments: dict[str, Any]) -> None:
    """The driver's program."""
    with tempfile.TemporaryDirectory() as folder:
        spark = new_session(Path(folder), arguments["master"], arguments["settings"])
        register_everything(spark)
        Path(arguments["folder"], "jvm.pid").write_text(str(spark.sparkContext._gateway.proc.pid))
        for run in arguments["runs"]:
            if run.pop("many", False):
                action, _, step = run.pop("fault").partition("@")
                run_many(spark, fault=Fault(action, step, run.pop("faultFlag")), **run)
            else:
                run_eos(spark, sink="kafka-eos-faulty", **run)
        spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
