"""The list of stories, and a story as a program gets it: with names of its own and the address of a broker."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("stories.toml")
Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    """See the head of the list. `topics`: how many partitions each has; `filled`: so many values are in the only topic,
    spread over its partitions; `transactions`: written to it one after the other, an aborted one begins with "!";
    `throttled`: quotas of bytes produced by client id; `codec`: what the batches in the log must be compressed with;
    `streamed`: so many values of `stream` must be in the log, each once and in order.
    """

    name: str
    room: str
    steps: list[Step]
    topics: dict[str, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    place: str = "open"
    mechanism: str = ""
    filled: int = 0
    transactions: list[list[str]] = field(default_factory=list)
    throttled: dict[str, int] = field(default_factory=dict)
    codec: str = ""
    streamed: int = 0

    @property
    def topic(self) -> str:
        """The only one."""
        (topic,) = self.topics
        return topic

    def named(self, suffix: str) -> "Story":
        """With names that nobody else has."""

        def fresh(part: Any) -> Any:
            if isinstance(part, str):
                return f"{part[1:]}-{suffix}" if part.startswith("$") else part
            if isinstance(part, list):
                return [fresh(one) for one in part]
            return {fresh(key): fresh(value) for key, value in part.items()} if isinstance(part, dict) else part

        changed = {name: fresh(getattr(self, name)) for name in ("steps", "topics", "throttled")}
        kept = {name: getattr(self, name) for name in self.__slots__ if name not in changed}
        return Story(**kept, **changed)


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(LIST.read_text())


@cache
def stories() -> tuple[Story, ...]:
    return tuple(Story(**told) for told in _read()["stories"])


def words() -> dict[str, list[str]]:
    """How clients say that something is refused."""
    return dict(_read()["errors"])


def known(*, kafka: bool = False) -> dict[tuple[str, str], str]:
    """Why a client does not see what a story says: by client and story. `kafka`: with Apache Kafka alone."""
    told = [one for one in _read()["known"] if one.get("kafka", False) == kafka]
    return {(one["client"], one["story"]): one["because"] for one in told}
