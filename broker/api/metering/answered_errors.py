"""The error codes that a response carries, wherever its message has places for them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from protocol.messages.fetch import FetchResponse
from protocol.schema import Primitive, fields_of

MOST_LOOKED_AT = 1000
"""Places of one kind in a response; a client chooses how many there are."""
FIELD = "error_code"

ErrorsOf = Callable[[Any], Sequence[int]]
"""The codes that are not NONE."""


def errors_of(response: type) -> ErrorsOf:
    """How to find them in a response of this class."""
    if response is FetchResponse:
        return _fetch
    paths = list(_paths(response))
    if paths == [()]:
        return _at_the_top
    return lambda answer: [code for path in paths for code in islice(_codes(answer, path), MOST_LOOKED_AT) if code]


def _fetch(answer: Any) -> Sequence[int]:
    found = [part.error_code for topic in answer.responses for part in topic.partitions if part.error_code]
    return [answer.error_code, *found] if answer.error_code else found


def _at_the_top(answer: Any) -> Sequence[int]:
    code = answer.error_code
    return (code,) if code else ()


def _paths(struct: type) -> Iterator[tuple[str, ...]]:
    """The names of arrays and structs that lead to each field called `error_code`."""
    for field in fields_of(struct):
        if field.name == FIELD:
            yield ()
        elif not isinstance(field.element, Primitive):
            for path in _paths(field.element):
                yield (field.name, *path)


def _codes(answer: Any, path: tuple[str, ...]) -> Iterator[int]:
    found: Iterator[Any] = iter((answer,))
    for name in path:
        found = _within(found, name)
    return map(attrgetter(FIELD), found)


def _within(structs: Iterator[Any], name: str) -> Iterator[Any]:
    for one in structs:
        value = getattr(one, name)
        if isinstance(value, Sequence):
            yield from value
        elif value is not None:
            yield value
