"""The ways between a node and others, on which nothing may pass for a while: through proxies on loopback, or over a
network (`tests.chaos.cluster.namespaces`)."""

from dataclasses import dataclass, field
from typing import Protocol


class Link(Protocol):
    """A way to somebody who is asked, and back."""

    def shut(self) -> None:
        """Nothing passes."""

    def stand_still(self, *, requests: bool, answers: bool) -> None:
        """Nothing passes in these directions, and nobody is told."""

    def mend(self) -> None:
        """As if nothing had been."""

    def stop(self) -> None:
        """It is not used any more."""


@dataclass
class Links:
    """Those of one node."""

    host: str
    port: int
    """Where it listens."""
    bootstrap: str
    """Where it is asked."""
    databases: list[str]
    """Where it asks the database: host and port of each place."""
    bucket: tuple[str, int] | None
    """Where it asks the bucket."""
    to_it: list[Link]
    to_database: list[Link]
    to_bucket: list[Link]
    to_others: list[Link] = field(default_factory=list)
    """To one other node each."""
    to_all: list[Link] = field(default_factory=list)
    """Whatever it sends, and whatever is sent to it."""
    prefix: list[str] = field(default_factory=list)
    """What its command line begins with."""

    @property
    def all(self) -> list[Link]:
        return [*self.to_it, *self.to_database, *self.to_bucket, *self.to_others, *self.to_all]
