"""A table of Delta as its log has it, read without Delta: a verdict that its own writer gave would prove less.

`_delta_log` has a file of actions for each version, one JSON object a line. The files of the table are those that were
added and not removed; an action `txn` says which micro-batch of which query a version is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote


def _actions(table: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    versions = sorted((table / "_delta_log").glob("*.json"))
    assert [int(path.stem) for path in versions] == list(range(len(versions))), "a version is missing"
    for path in versions:
        for line in path.read_text().splitlines():
            yield from json.loads(line).items()


def files_of(table: Path) -> list[Path]:
    """The Parquet files that the newest version consists of."""
    files: dict[str, None] = {}
    for kind, action in _actions(table):
        assert not action.get("deletionVector"), "rows are deleted beside the files: this reader does not know how"
        if kind == "add":
            files[action["path"]] = None
        elif kind == "remove":
            files.pop(action["path"], None)
    return [table / unquote(path) for path in files]


def batches_of(table: Path) -> list[int]:
    """The micro-batches in it, in the order of its versions. They are of one query."""
    transactions = [action for kind, action in _actions(table) if kind == "txn"]
    assert len({action["appId"] for action in transactions}) <= 1, "two queries have written"
    return [action["version"] for action in transactions]
