"""What the sink's batches came to, for the driver's program: Spark has no way to ask a Python sink for metrics.

The commit worker tells them to the driver's Python process after each EndTxn, and so before Spark tells its listeners
of the batch. They are kept there, for the newest batches of each query.

    class Shown(StreamingQueryListener):
        def onQueryProgress(self, event):
            print(with_sink_metrics(event.progress)["sink"]["metrics"])
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

_MOST_BATCHES = 100


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    """Of one micro-batch."""

    transactional_id: str
    batch: int
    records: int
    size_bytes: int
    """Of record batches, as they were sent."""
    retries: int
    """How often something was tried again, because a broker was away, moved, or not ready yet."""
    commit_ms: int
    """From the marker's writing to the answer of EndTxn."""
    is_replay: bool = False
    """Whether the batch was in Kafka already, and nothing was written."""

    def as_spark(self) -> dict[str, str]:
        """As `progress.sink.metrics` would have them: texts."""
        return {
            "transactionalId": self.transactional_id,
            "batchId": str(self.batch),
            "records": str(self.records),
            "bytes": str(self.size_bytes),
            "retries": str(self.retries),
            "commitMs": str(self.commit_ms),
            "replay": str(self.is_replay).lower(),
        }


class Progress(Protocol):
    """`StreamingQueryProgress`, as far as it is needed here."""

    @property
    def json(self) -> str: ...


_kept: dict[str, deque[BatchMetrics]] = {}
"""By the query's id, the oldest first."""


def sink_metrics(query_id: object) -> list[BatchMetrics]:
    """Of the newest batches that were committed in this driver, the oldest first: `sink_metrics(query.id)`."""
    return list(_kept.get(str(query_id), ()))


def with_sink_metrics(progress: Progress) -> dict[str, Any]:
    """A progress as data, with `sink.metrics` filled where they are known."""
    told: dict[str, Any] = json.loads(progress.json)
    for one in reversed(sink_metrics(told["id"])):
        if one.batch == told["batchId"]:
            told["sink"]["metrics"] = one.as_spark()
            break
    return told


def keep(query_id: str, written: Mapping[str, Any]) -> None:
    """What the commit worker has told, `written` by `asdict`."""
    _kept.setdefault(query_id, deque(maxlen=_MOST_BATCHES)).append(BatchMetrics(**written))


def as_told(metrics: BatchMetrics) -> dict[str, Any]:
    """How they travel."""
    return asdict(metrics)
