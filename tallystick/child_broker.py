"""A broker for a Python program, in a process of its own.

    with tallystick.Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

Nothing of the broker is imported here. It listens on a free port, which it keeps across `restart`, and is stopped
when the block ends or the program does.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from tallystick.control import NotDone
from tallystick.copied_folder import copy_folder
from tallystick.durations import in_milliseconds
from tallystick.node_control import NodeControl
from tallystick.process import BrokerFailed, BrokerProcess
from tallystick.secured import Secured

__all__ = ["Broker", "BrokerFailed", "Mark", "NotDone"]

_DATA = "data"
_COPY = "tallystick.copy"
"""Whoever starts on this folder gives away no producer id that the other broker may have given away since."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a broker's data was at one moment, to `rewind` to."""

    data: Path


class Broker(NodeControl):
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
        control: bool = False,
        http: bool = False,
        tls: bool = False,
        nodes: int = 1,
    ) -> None:
        """`http` lets it tell health and metrics on a free port (`http_url`); it needs the extra `http`. `control` lets
        `fault` and `advance_time` be used: for tests, and somewhat slower. Such a broker ends with the program that
        started it, however that ends. `tls` gives it certificates of its own, which `client_settings` trust, and no
        listener without; it needs the extra `security`. With `nodes` it is so many, in one process, on neighbouring
        ports, and in memory: what there is to be broken in them is in `NodeControl`."""
        options = ["--durability", durability, *(["--in-memory"] if in_memory else [])]
        options += ["--nodes", str(nodes)] if nodes > 1 else []
        options += [part for key, value in (config or {}).items() for part in ("--set", f"{key}={value}")]
        self._temporary = tempfile.mkdtemp(prefix="tallystick-") if folder is None else None
        self._secured = self._with_certificates(Path(folder or self._temporary or "")) if tls else None
        if self._secured is not None:
            options += [part for key, value in self._secured.settings.items() for part in ("--set", f"{key}={value}")]
        self.process = BrokerProcess(
            Path(folder or self._temporary or ""),
            options=options,
            port=port,
            start_seconds=start_seconds,
        )
        self.process.is_controlled = control
        self.process.has_http = http
        self.process.has_tls = tls
        self.process.has_data = nodes == 1
        self._in_memory = in_memory or nodes > 1
        self.nodes = nodes
        self._ahead_since = -1
        self._forks: list[Broker] = []
        self._marks: list[Mark] = []
        self._one_copy = threading.Lock()
        """Who has copied lets it run again: nobody else may be copying then."""
        atexit.register(self.close)

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`; of several nodes those of all."""
        return self.process.bootstrap

    @property
    def client_settings(self) -> dict[str, str]:
        """What a client built on librdkafka (confluent-kafka) needs to reach it: its address, and whom to trust."""
        trust = {} if self._secured is None else self._secured.client_settings
        return {"bootstrap.servers": self.bootstrap, **trust}

    @property
    def ca_file(self) -> Path | None:
        """With `tls`, the certificate that clients are to trust (PEM)."""
        return None if self._secured is None else self._secured.authority

    @property
    def http_url(self) -> str:
        """Where its HTTP side is, `http://127.0.0.1:PORT`; empty where it has none."""
        return self.process.http_url

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

    def freeze(self) -> None:
        """Let it stand still, as a machine does that is out of memory; its sockets stay open."""
        self.process.freeze()

    def thaw(self) -> None:
        self.process.thaw()

    def fault(
        self,
        point: str,
        action: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        at: int = 1,
        times: int | None = 1,
    ) -> None:
        """Arm a fault point, one of docs/faults.md: `crash`, `freeze`, `drop`, `delay:50` (milliseconds),
        `fail:NOT_LEADER_OR_FOLLOWER`, `fail:ENOSPC`. It strikes at the `at`th pass from now, and `times` times in a
        row (None: for ever); where a topic or partition is named, only there. Raises `NotDone` for what there is not.
        """
        if partition is not None and topic is None:
            raise ValueError("a partition of which topic?")
        place = "" if topic is None else f"[{topic}]" if partition is None else f"[{topic}:{partition}]"
        self._ask("arm", text=f"{point}{place}={action}@{at}x{'*' if times is None else times}")

    def clear_faults(self) -> None:
        """Nothing strikes any more."""
        self._ask("disarm")

    def fault_hits(self) -> Counter[str]:
        """How often each fault point was passed since the start, armed or not."""
        return Counter(self._ask("hits"))

    def advance_time(self, by: str | float | timedelta) -> None:
        """Move the broker's clock forward, by seconds or in words (`15m`, `1h30m`, `250ms`): timeouts of transactions,
        sessions, retention and expiry are due as if so long had passed. It stays ahead until the next start."""
        self._ask("advance", milliseconds=in_milliseconds(by))
        self._ahead_since = self.process.starts

    @property
    def is_ahead(self) -> bool:
        """Whether its clock was moved since its start."""
        return self._ahead_since == self.process.starts

    def audit(self) -> None:
        """Read everything and compare, as `tallystick audit` does, while nobody writes. Raises `AssertionError` with
        what is not as promised."""
        done = subprocess.run(self.command("audit"), capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def command(self, *words: str) -> list[str]:
        """The command line of `tallystick` that asks this broker, whoever runs it."""
        command = [sys.executable, "-P", str(Path(__file__).with_name("__main__.py")), *words]
        trust = [] if self._secured is None else ["--command-config", str(self._secured.command_config)]
        return [*command, "--bootstrap-server", self.bootstrap, *trust]

    def wipe(self) -> list[str]:
        """Delete all topics and groups, as for the next test; the names of groups that stay, for they have members."""
        left: list[str] = self._ask("wipe")
        return left

    def timeline(self, transactional_id: str) -> dict[str, Any]:
        """What happened to a transactional id since the start: requests with their answers, states, records, markers.
        As `tallystick transactions timeline --json` has it; docs/explain.md describes it."""
        said: dict[str, Any] = self._ask("timeline", transactional_id=transactional_id)
        return said

    def fences(self, transactional_id: str) -> dict[str, Any]:
        """Who raised its epoch, and which requests were turned away for it, as `tallystick explain fenced --json`."""
        said: dict[str, Any] = self._ask("fences", transactional_id=transactional_id)
        return said

    def open_transactions(self) -> list[dict[str, Any]]:
        """The transactions that are open, the oldest first, each with the client that holds it."""
        said: list[dict[str, Any]] = self._ask("open_transactions")["transactions"]
        return said

    def lint(self) -> list[dict[str, Any]]:
        """What clients had better do otherwise, as `tallystick lint --json` has it."""
        said: list[dict[str, Any]] = self._ask("lint")["findings"]
        return said

    def _ask(self, command: str, **fields: object) -> Any:
        control = self.process.control
        if control is None:
            raise NotDone("it has to be started, with control=True")
        return control.ask(command, **fields)

    def restart(self, *, kill: bool = False) -> "Broker":
        """Stop (or kill) it and start it again, with the same port and data."""
        if self.process.running:
            if kill:
                self.kill()
            else:
                self.stop()
        return self.start()

    def fork(self) -> "Broker":
        """A second broker that runs, with a port of its own, and with the data that `kill -9` would leave of this one
        now: all that was acknowledged, and transactions under way undecided. It has this one's cluster and node ids,
        the real clock and no fault armed; it is closed with this one, if not before. Raises `NotDone` where there is
        no data."""
        folder = self._copied("fork-")
        fork = Broker(folder=folder, start_seconds=self.process.start_seconds)
        fork._temporary = str(folder)
        fork.process.options = list(self.process.options)
        fork.process.environment = dict(self.process.environment)
        fork.process.is_controlled, fork.process.has_http = self.process.is_controlled, self.process.has_http
        fork.process.has_tls, fork._secured = self.process.has_tls, self._secured
        self._forks.append(fork)
        return fork.start()

    @property
    def forks(self) -> "list[Broker]":
        """Those that run, and have been made of it."""
        return [fork for fork in self._forks if fork.process.running]

    def mark(self) -> Mark:
        """Keep what `kill -9` would leave of its data now. Raises `NotDone` where there is no data."""
        mark = Mark(self._copied("mark-") / _DATA)
        self._marks.append(mark)
        return mark

    def rewind(self, mark: Mark) -> "Broker":
        """Kill it, let its data be what they were at `mark`, and start it with the same port and the real clock. A mark
        may be gone back to more than once. Raises `NotDone` for another broker's mark."""
        if mark not in self._marks:
            raise NotDone("this mark is not of this broker, or was forgotten")
        self.kill()
        shutil.rmtree(self.process.data, ignore_errors=True)
        copy_folder(mark.data, self.process.data)
        return self.start()

    def forget_copies(self) -> None:
        """Close its forks and delete its marks: all of them, also where one does not stop in time. Raises
        `BrokerFailed` then."""
        with ExitStack() as closing:
            while self._marks:
                closing.callback(shutil.rmtree, self._marks.pop().data.parent, ignore_errors=True)
            while self._forks:
                closing.callback(self._forks.pop().close)

    def _copied(self, prefix: str) -> Path:
        """A new folder with its data, on the same file system, where blocks can be shared."""
        if self._in_memory:
            raise NotDone("its data is in memory alone: there is no folder to copy")
        if not self.process.data.exists():
            raise NotDone("it was never started: there is no data to copy")
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self.process.folder))
        try:
            with self._one_copy, self.process.standing_still():
                copy_folder(self.process.data, folder / _DATA)
            (folder / _DATA / _COPY).touch()
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    def _with_certificates(self, folder: Path) -> Secured:
        try:
            return Secured(folder / "certificates")
        except NotDone:
            if self._temporary is not None:
                shutil.rmtree(self._temporary)
            raise

    def close(self) -> None:
        """Stop it and delete what was temporary. Safe to call twice."""
        atexit.unregister(self.close)
        try:
            self.forget_copies()
        finally:
            self._close()

    def _close(self) -> None:
        try:
            if self.process.running:
                self.stop()
        finally:
            self.process.close()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> "Broker":
        return self if self.process.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
