"""Parsing while garbage waits to be collected whose end parses, too."""

import ast
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.syntax import parsed


class Ends:
    """Garbage of a cycle; its end parses, as a traceback in the log does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("a.b(c, d)[1] + f(x)")


@pytest.fixture
def _eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(50, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("_eager_collector")
def test_no_garbage_ends_while_a_file_is_parsed() -> None:
    source = Path(__file__).read_text()
    for _ in range(20):
        for _ in range(20):
            Ends()
        assert isinstance(parsed(source), ast.Module)
