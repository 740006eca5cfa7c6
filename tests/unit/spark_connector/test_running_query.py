"""Whose batch a `foreachBatch` has, in a process without a JVM: what is said where that is not known."""

from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("pyspark")

from spark_connector.errors import BadOption, SourceOffsetsUnknown
from spark_connector.sink.running_query import running_query

QUERY = "11111111-2222-3333-4444-555555555555"


@dataclass
class Running:
    """A query, and a row of its checkpoint."""

    id: str = QUERY
    runId: str = "run-1"
    value: str = f'{{"id": "{QUERY}"}}\n'


@dataclass
class Session:
    """What is asked of a session of Spark Connect."""

    active: list[Running]
    asked: list[str] = field(default_factory=list)

    @property
    def streams(self) -> "Session":
        return self

    @property
    def read(self) -> "Session":
        return self

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.driver.host": "driver.example.org"}

    def text(self, path: str, *, wholetext: bool) -> "Session":
        assert wholetext
        self.asked.append(path)
        return self

    def collect(self) -> list[Running]:
        return [Running()]


def running(session: Any, location: str | None = "s3a://bucket/checkpoint/") -> Any:
    return running_query(session, location)


def test_its_id_is_in_the_checkpoint_that_is_named() -> None:
    session = Session([Running("other", "run-0"), Running()])
    found = running(session)
    assert (found.query, found.run, found.checkpoint.query) == (QUERY, "run-1", QUERY)
    assert session.asked == ["s3a://bucket/checkpoint/metadata"]
    assert found.checkpoint.is_told
    assert (found.host, found.bind, found.is_only_one) == ("driver.example.org", "driver.example.org", True)


def test_a_checkpoint_must_be_named() -> None:
    with pytest.raises(BadOption, match="needs option checkpointLocation"):
        running(Session([Running()]), None)


def test_a_query_of_another_session_is_not_believed() -> None:
    with pytest.raises(SourceOffsetsUnknown, match="does not run in this session"):
        running(Session([Running("other")]))
