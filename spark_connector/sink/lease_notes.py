"""Under which lease a task writes, told to the driver: where Spark gives the batch up, somebody must know it.

A task that is given up cannot be relied on: it was killed, or it was given the end of its rows as if there were no
more, and what it returns nobody hears. So it tells its lease before it writes, and `abort` gives that lease up.

    task -> driver            one line of JSON: token, sink, batch, the lease
    commit worker -> driver   the same without a lease; the answer is the leases of that batch
    commit worker -> driver   token, query, the metrics of a batch that is committed (`spark_connector.metrics`)

Rule 1. Best effort: a driver that cannot be reached costs its readers the transaction's timeout, and its program the
        metrics of a minute, and nothing else.
Rule 2. Only the newest batch of a sink is kept.
"""

import hmac
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_connector.lines import Address, LineServer, ask
from spark_connector.metrics import BatchMetrics, as_told, keep
from tallystick.client.background import fresh_name, monotonic_s
from tallystick.client.lease import Lease

_PATIENCE_S = 2.0
_LEFT_ALONE_S = 60.0
"""How long a driver is not told anything after it did not answer: a batch is not to wait for each note."""
_left_alone: dict[Address, float] = {}
"""Drivers that did not answer this process, and until when they are left alone."""


@dataclass(frozen=True, slots=True)
class Notes:
    """How the driver's notes are reached; can be pickled. `token` shows that the asker is ours."""

    address: Address
    token: str

    def keep(self, sink: str, batch: int, lease: Lease) -> None:
        """Tell the driver a lease."""
        self._asked({"sink": sink, "batch": batch, "lease": asdict(lease)})

    def of(self, sink: str, batch: int) -> list[Lease]:
        """The leases of a batch; none where they are not known."""
        answer = self._asked({"sink": sink, "batch": batch})
        return [Lease(**lease) for lease in answer["leases"]]

    def committed(self, query: str, metrics: BatchMetrics) -> None:
        """Tell the driver what a batch came to."""
        self._asked({"query": query, "metrics": as_told(metrics)})

    def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        if monotonic_s() >= _left_alone.get(self.address, 0):
            with suppress(OSError, ValueError):
                answer = ask(self.address, {**question, "token": self.token}, _PATIENCE_S)
                if answer is not None:
                    return answer
            _left_alone[self.address] = monotonic_s() + _LEFT_ALONE_S
        return {"leases": []}


class NoteServer:
    """The notes, in the driver's Python process."""

    def __init__(self, bind: str, host: str) -> None:
        self._token = fresh_name()
        self._noted: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._server = LineServer(bind, self._answer, "spark-eos-leases")
        self.notes = Notes((host, self._server.port), self._token)

    def close(self) -> None:
        self._server.close()

    def _answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        if not hmac.compare_digest(str(question["token"]), self._token):
            raise ValueError("no question of ours")
        if "metrics" in question:
            keep(str(question["query"]), question["metrics"])
            return {"leases": []}
        sink, batch = str(question["sink"]), int(question["batch"])
        kept, leases = self._noted.get(sink, (-1, []))
        if "lease" not in question:
            return {"leases": leases if kept == batch else []}
        self._noted[sink] = (batch, [*(leases if kept == batch else ()), dict(question["lease"])])
        return {"leases": []}


_served: dict[int, NoteServer] = {}
"""By the JVM of the session."""


def notes_of(session: Any) -> Notes | None:
    """Those of a session; None where this process is not its driver (Spark Connect)."""
    where = bound_address(session)
    if where is None:
        return None
    key = id(session.sparkContext._gateway)
    if key not in _served:
        with suppress(OSError):
            _served[key] = NoteServer(*where)
    return _served[key].notes if key in _served else None


def bound_address(session: Any) -> tuple[str, str] | None:
    """Where a server of the driver's Python process listens, and the name by which executors call it; None where this
    process is not the session's driver (Spark Connect).
    """
    if not isinstance(session, SparkSession) or getattr(session, "_jsparkSession", None) is None:
        return None
    configured = session.sparkContext.getConf()
    host = configured.get("spark.driver.host", "127.0.0.1")
    assert host is not None
    return configured.get("spark.driver.bindAddress", host) or host, host
