"""The walk of `docs/tutorial.md`, from its first line to its last."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.broker import KAFKA
from tests.harness.tutorial import BLOCKS, PAGE, Walk

pytestmark = pytest.mark.skipif(KAFKA, reason="it is our broker's")


def test_the_walk_is_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    assert len(BLOCKS) * 2 == len(re.findall("^```", PAGE, re.MULTILINE)) > 20
    with closing(Walk(tmp_path)) as walk:
        for kind, place, text in BLOCKS:
            walk.step(kind, place, text)
        assert set(walk.terminals) == {"broker", "writer", "reader"}
        assert walk.terminals["reader"].process.wait(30) == 0
