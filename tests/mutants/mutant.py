"""A mutant: some text of one function, and what stands there instead.

Planting compiles the function anew and gives the code to the live function object, so that it does not matter what has
imported it, or in which table of handlers it stands. Where the text is not there any more, or is there twice, the
mutant no longer applies (`Stale`): it has to be written for the code as it is now.
"""

import ast
import contextlib
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from tests.harness.syntax import parsed

VARIABLE = "TALLYSTICK_MUTANT"
SEEDS = 150
"""Within how many seeds the simulation has to notice what no scenario does."""


class Stale(Exception):
    """A mutant does not fit the code any more."""


@dataclass(frozen=True, slots=True)
class Change:
    """In the function at `place` ("module:Class.method"), `old` becomes `new`. Lines are those of the source, with the
    indentation they have in a function that is not indented."""

    place: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to be wrong."""

    name: str
    imitates: str
    """Where it was seen: a ticket, a product, or the invariant that it breaks."""
    changes: tuple[Change, ...] = ()
    caught_by: tuple[str, ...] = field(default=())
    """What is expected to notice it, the quickest first: see `catchers`."""
    plant: Callable[[], contextlib.AbstractContextManager[Any]] | None = None
    """For one that is not a change of text."""
    unseen: str = ""
    """Why no story can notice it: what a test of it does that no story may. A test has to notice it then."""

    @property
    def places(self) -> str:
        return ", ".join(dict.fromkeys(change.place for change in self.changes))

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """The defect is in the live code for as long as this lasts. Raises `Stale`."""
        with contextlib.ExitStack() as stack:
            if self.plant is not None:
                stack.enter_context(self.plant())
            for place in dict.fromkeys(change.place for change in self.changes):
                function = function_at(place)
                right = function.__code__
                changes = [change for change in self.changes if change.place == place]
                function.__code__ = changed_code(function, changes)
                stack.callback(setattr, function, "__code__", right)
            yield


def function_at(place: str) -> FunctionType:
    """The function object itself, out of properties and class methods."""
    module_name, _, path = place.partition(":")
    found: Any
    try:
        found = importlib.import_module(module_name)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
            if isinstance(found, property):
                found = found.fget
            found = getattr(found, "__func__", found)
    except (ImportError, AttributeError) as error:
        raise Stale(f"{place} is gone: {error}") from error
    if not isinstance(found, FunctionType):
        raise Stale(f"{place} is no function")
    return found


@functools.cache
def source_of(function: FunctionType) -> str:
    """As it was when it was first read: files may change under a long run."""
    return textwrap.dedent(inspect.getsource(function))


def changed_code(function: FunctionType, changes: Sequence[Change]) -> CodeType:
    """The code of a function with all changes in it."""
    source = source_of(function)
    for change in changes:
        count = source.count(change.old)
        if count != 1:
            raise Stale(f"{change.place} has {count} times {change.old!r}")
        source = source.replace(change.old, change.new)
    tree = parsed(source)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    module = compile(tree, function.__code__.co_filename, "exec", dont_inherit=True)
    found = next(
        code for code in module.co_consts if isinstance(code, CodeType) and code.co_name == function.__code__.co_name
    )
    if found.co_freevars != function.__code__.co_freevars:
        raise Stale(f"{function.__qualname__} is a closure")
    return found.replace(co_qualname=function.__code__.co_qualname)
