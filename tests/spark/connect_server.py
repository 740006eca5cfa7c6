"""A Spark Connect server in a process of its own, on loopback; clients come over gRPC."""

import os
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness.confluent import wait_until
from tests.harness.proxy import free_port
from tests.spark.queries import SECONDS
from tests.spark.session import worker_environment

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """Started with `with`; gone, Python workers and all, at its end."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.port = free_port()
        self._folder = folder
        self._settings = {
            **settings,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "ConnectServer":
        self._folder.mkdir(parents=True, exist_ok=True)
        found = find_spec("pyspark")
        assert found is not None and found.origin is not None
        submit = str(Path(found.origin).parent / "bin" / "spark-submit")
        settings = [part for name, value in self._settings.items() for part in ("--conf", f"{name}={value}")]
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", submit, "--master", "local[2]", "--class", CLASS, *settings],
                env={**os.environ, **worker_environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(self._answers, "the Spark Connect server", seconds=SECONDS)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def session(self) -> Any:
        """A new one. The session of a classic Spark in this process stays what it is."""
        from pyspark.sql.connect.session import SparkSession

        return SparkSession.builder.remote(f"sc://127.0.0.1:{self.port}").create()

    def said(self) -> str:
        return (self._folder / "server.log").read_text(errors="replace")[-6000:]

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.said()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5):
            return True
        return False
