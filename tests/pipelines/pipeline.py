"""What the director wants of a pipeline."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from spark_connector.pipelines.settings import Settings
from tests.pipelines.verdict import Verdict


class Sent(NamedTuple):
    """A record to be written."""

    partition: int
    key: bytes
    value: bytes


class Transaction(NamedTuple):
    """Records that are written together; `void`: aborted on purpose, and never written again."""

    records: list[Sent]
    void: bool


class Topic(NamedTuple):
    """A topic to be made."""

    name: str
    partitions: int
    config: Mapping[str, str]


@dataclass(slots=True)
class Run:
    """What a run leaves behind for the verdict."""

    settings: Settings
    last_written: dict[int, int] = field(default_factory=dict)
    """The last committed offset of the source topic, by partition."""
    states: dict[int, list[list[object]]] = field(default_factory=dict)
    """What the state store held after a batch, as drivers found it when they started."""


class Pipeline(Protocol):
    """One of the three."""

    name: str
    queries: tuple[str, ...]
    source_topic: str
    sink_topic: str

    def topics(self, settings: Settings) -> list[Topic]: ...

    def transactions(self, settings: Settings) -> Iterator[Transaction]:
        """What is written into the source topic."""

    def records(self, settings: Settings) -> int:
        """How many of them are committed, about: for the progress bar and for the gate that faults open."""

    def is_finished(self, run: Run) -> bool:
        """Whether all that was written has gone through all queries."""

    def judge(self, run: Run) -> Verdict: ...
