"""Under which sink id a writer of a query writes: the id of its transactions, and the name of its markers.

Pure: what the control topic knows goes in, an id or a refusal comes out.

Rule 1. An id follows from what Spark keeps in the checkpoint, the query's id, and never from where the checkpoint lies
        or how its path is spelled: a checkpoint that is moved or copied is the same query.
Rule 2. What a query has begun it goes on with: an id under which it has markers stays its id, whoever chose it.
Rule 3. `kafka-eos` is the only writer of its query. A `foreachBatch` may have several, so theirs is named after its
        topic, and an id that another writer of this run has is not taken.
Rule 4. A writer without markers does not write a batch that is marked already by nobody who writes here: its topic or
        its sinkId was changed, and the batch is in the old place.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spark_connector.errors import SinkChanged
from spark_connector.progress import Marker

Known = Mapping[str, Marker | None]
"""What the control topic knows of a query: by sink id its last marker, None where that is not decided yet."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who asks."""

    query: str
    named: str | None
    """Option sinkId."""
    topic: str | None
    """Option topic; None where each row says so."""
    is_sole: bool
    """Whether it is the only writer of its query (rule 3)."""

    @property
    def fresh_id(self) -> str:
        """Its id where nothing is known yet."""
        if self.named is not None:
            return self.named
        by_topic = self.topic is not None and not self.is_sole
        return f"spark-{self.query}-{self.topic}" if by_topic else f"spark-{self.query}"


def sink_id_of(writer: Writer, known: Known, batch: int, others: Collection[str] = ()) -> str:
    """The writer's id. `others` are the ids of the other writers of this run. Raises `SinkChanged` (rule 4)."""
    own = writer.fresh_id
    if own in known:
        return own
    left = {sink_id: marker for sink_id, marker in known.items() if sink_id not in others}
    if writer.named is None:
        fitting = [
            sink_id
            for sink_id, marker in left.items()
            if writer.is_sole or marker is None or marker.is_of(writer.topic)
        ]
        if fitting:
            return max(fitting, key=lambda sink_id: _batch_of(left[sink_id]))
    for sink_id, marker in sorted(left.items()):
        if marker is not None and marker.batch >= batch:
            where = " and ".join(marker.topics or sorted(marker.records)) or "its topic"
            raise SinkChanged(
                f"batch {marker.batch} of this query is in {where} already, written by the sink {sink_id}; as {own} it "
                "would be written again. Was option topic or sinkId changed? Bring the old one back, or start with an "
                "empty checkpoint folder; where both write, let the one that wrote before come first in foreachBatch"
            )
    return own


def _batch_of(marker: Marker | None) -> int:
    return -1 if marker is None else marker.batch


def id_by_path(checkpoint: str) -> str:
    """The id that older builds made of a checkpoint's path: what they left open under it is settled first."""
    return f"spark-{_digest(checkpoint.rstrip('/'))}"


def id_of_job(job_id: str) -> str:
    """The id of a batch job with a name."""
    return f"spark-job-{_digest(job_id)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
