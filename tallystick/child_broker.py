"""A broker for a Python program, in a process of its own.

    with tallystick.Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

Nothing of the broker is imported here. It listens on a free port, which it keeps across `restart`, and is stopped
when the block ends or the program does.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tallystick.process import BrokerFailed, BrokerProcess

__all__ = ["Broker", "BrokerFailed"]


class Broker:
    """One broker process. Without `folder` its data lives in a temporary folder and goes with it."""

    def __init__(
        self,
        *,
        folder: str | os.PathLike[str] | None = None,
        port: int = 0,
        durability: str = "fsync",
        in_memory: bool = False,
        config: Mapping[str, object] | None = None,
        start_seconds: float = 30.0,
    ) -> None:
        options = ["--durability", durability, *(["--in-memory"] if in_memory else [])]
        options += [part for key, value in (config or {}).items() for part in ("--set", f"{key}={value}")]
        self._temporary = tempfile.mkdtemp(prefix="tallystick-") if folder is None else None
        self.process = BrokerProcess(
            Path(folder or self._temporary or ""),
            options=options,
            port=port,
            start_seconds=start_seconds,
        )
        atexit.register(self.close)

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`."""
        return self.process.bootstrap

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> "Broker":
        """Start it and return once it serves requests. Raises `BrokerFailed`."""
        self.process.start()
        return self

    def stop(self) -> int:
        """An ordered shutdown; returns the exit status."""
        return self.process.stop()

    def kill(self) -> None:
        """What a crash of the process does."""
        self.process.kill()

    def restart(self, *, kill: bool = False) -> "Broker":
        """Stop (or kill) it and start it again, with the same port and data."""
        if self.process.running:
            if kill:
                self.kill()
            else:
                self.stop()
        return self.start()

    def close(self) -> None:
        """Stop it and delete what was temporary. Safe to call twice."""
        atexit.unregister(self.close)
        if self.process.running:
            self.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> "Broker":
        return self if self.process.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
