"""How a command holds on to a moment: by its lock, until it lets go of it, whatever becomes of the copy."""

import fcntl
from pathlib import Path
from typing import Any

import pytest

from broker.backups.asking import BrokerAsked
from broker.backups.target import Refused
from broker.upkeep.pinned_moments import LOCK


class Asked(BrokerAsked):
    """A broker that says of its moment what it is told to say."""

    def __init__(self, folder: Path, states: list[str]) -> None:
        super().__init__("http://127.0.0.1:1", None, lambda _seconds: None)
        self.folder, self.states = folder, states
        self.heard: list[str] = []

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        self.heard.append(f"{method} {path}")
        state = self.states.pop(0) if method != "DELETE" else ""
        return {"id": "one", "folder": str(self.folder), "state": state, "reason": "no links here"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / LOCK).write_bytes(b"")
    return tmp_path


def is_held(folder: Path) -> bool:
    with (folder / LOCK).open("rb") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_it_is_held_while_it_is_copied_and_let_go_of_then(folder: Path) -> None:
    asked = Asked(folder, ["linking", "linking", "ready"])
    with asked.moment() as found:
        assert found == str(folder) and is_held(folder)
        assert asked.heard == ["POST /v1/backups"] + ["GET /v1/backups/one"] * 2
    assert not is_held(folder) and asked.heard[3:] == ["DELETE /v1/backups/one"]


def test_it_is_let_go_of_where_the_copy_fails(folder: Path) -> None:
    asked = Asked(folder, ["ready"])
    with pytest.raises(OSError, match="full"), asked.moment():
        raise OSError("full")
    assert not is_held(folder) and asked.heard[-1] == "DELETE /v1/backups/one"


def test_one_that_has_failed_is_not_copied(folder: Path) -> None:
    asked = Asked(folder, ["linking", "failed"])
    with pytest.raises(Refused, match="no links here"), asked.moment():
        pytest.fail("it was given out")
    assert not is_held(folder) and asked.heard[-1] == "DELETE /v1/backups/one"


def test_one_that_cannot_be_read_from_here_is_let_go_of(folder: Path) -> None:
    asked = Asked(folder / "on another machine", ["ready"])
    with pytest.raises(Refused, match="on the broker's machine"), asked.moment():
        pytest.fail("it was given out")
    assert asked.heard[-1] == "DELETE /v1/backups/one"
