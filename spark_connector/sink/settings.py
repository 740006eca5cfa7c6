"""The options of the sink as one frozen value, and what is refused before anything is written."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from protocol.records.compression import NAMES
from spark_connector.access import Access, access_of
from spark_connector.errors import BadOption
from spark_connector.options import SINK, read_options
from spark_connector.sink.identity import id_of_job
from spark_connector.stock_settings import OF_THE_SINK, REFUSED_BY_THE_SINK

_SINK_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """See `options.SINK` for what each means."""

    access: Access
    topic: str | None
    sink_id: str | None
    """As it was named, or made of the name of a job; without a name a stream's follows from its query (`identity`)."""
    checkpoint: str | None
    group_id: str | None
    job_id: str | None
    progress_topic: str
    codec: int
    batch_bytes: int
    room_bytes: int
    transaction_timeout_ms: int
    patience_s: float

    @classmethod
    def of(cls, given: Mapping[str, str], *, streaming: bool) -> "SinkSettings":
        """Raises `BadOption`."""
        values = read_options(SINK, given, without_effect=OF_THE_SINK, refused=REFUSED_BY_THE_SINK)

        def text(name: str) -> str | None:
            value = values[name]
            return None if value is None else str(value)

        def number(name: str) -> int:
            value = values[name]
            assert isinstance(value, int)
            return value

        settings = cls(
            access=access_of(values),
            topic=text("topic"),
            sink_id=_sink_id(text("sinkId"), text("jobId")),
            checkpoint=text("checkpointLocation"),
            group_id=text("groupId"),
            job_id=text("jobId"),
            progress_topic=str(values["progressTopic"]),
            codec=NAMES.index(str(values["kafka.compression.type"])),
            batch_bytes=number("kafka.batch.size"),
            room_bytes=number("kafka.buffer.memory"),
            transaction_timeout_ms=number("kafka.transaction.timeout.ms"),
            patience_s=number("kafka.delivery.timeout.ms") / 1000,
        )
        settings._refuse(streaming=streaming)
        return settings

    def _refuse(self, *, streaming: bool) -> None:
        if self.topic == self.progress_topic:
            raise BadOption(f"topic {self.topic} is the control topic: choose another one")
        if self.group_id is not None and not streaming:
            raise BadOption("groupId is for streaming: a batch job has no source offsets")
        if self.job_id is not None and streaming:
            raise BadOption("jobId is for batch jobs: a stream has its checkpoint")


def _sink_id(named: str | None, job_id: str | None) -> str | None:
    if named is not None and not _SINK_ID.fullmatch(named):
        raise BadOption(f"sinkId {named!r}: 1 to 200 letters, digits, '.', '_' and '-'")
    if named is None and job_id is not None:
        return id_of_job(job_id)
    return named
