"""The recipes of `docs/spark-recipes.md`, run as they stand: only addresses, the authority's file and folders are ours.

A recipe is a heading of the page; its test is named after it.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.certificates import Certificates
from tests.harness.secure_broker import SecureBroker
from tests.spark.queries import finished
from tests.spark.session import ROOT

PAGE = ROOT / "docs" / "spark-recipes.md"
_RECIPE = re.compile(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower().replace("'", "")).strip("_")


def by_name() -> dict[str, list[tuple[str, str]]]:
    """The blocks of each recipe, (language, text), by the recipe's name as a test has it."""
    return {slug(title): _BLOCK.findall(text) for title, text in _RECIPE.findall(PAGE.read_text())}


@dataclass(slots=True)
class Recipe:
    """One of them, run block by block in one name space, as by somebody who copies it."""

    spark: Any
    broker: SecureBroker
    certificates: Certificates
    folder: Path
    blocks: list[tuple[str, str]]
    names: dict[str, Any] = field(default_factory=dict)
    started: list[Any] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    """The blocks that have not been run yet."""

    def __post_init__(self) -> None:
        self.names["spark"] = self.spark
        self.unread = set(range(len(self.blocks)))

    def text(self, number: int) -> str:
        """A block, with our places in it."""
        self.unread.discard(number)
        text = self.blocks[number][1]
        for theirs, ours in (
            ("127.0.0.1:9092", self.broker.open_bootstrap),
            ("broker.example.org:9093", self.broker.bootstrap),
            ("/etc/kafka/ca.pem", str(self.certificates.path("ca"))),
            ("/data/", f"{self.folder}/"),
        ):
            text = text.replace(theirs, ours)
        return text

    def run(self, number: int = 0) -> None:
        """A block of Python."""
        assert self.blocks[number][0] == "python"
        exec(self.text(number), self.names)
        if "query" in self.names and self.names["query"] not in self.started:
            self.started.append(self.names["query"])

    def settle(self) -> None:
        """Wait until the query has written what was there; raises what it failed with."""
        self.names["query"].processAllAvailable()

    def ended(self) -> None:
        """Wait for the end of a query that ends by itself."""
        finished(self.names["query"])

    def close(self) -> None:
        for query in self.started:
            query.stop()
