"""What the log is told where another node does not let this one ask: once, until it does; and what of an answer says
so.

Nobody else is told. What a client may do was looked at before a node asks another; that one looks at what the node
may, and who asked as a client can do nothing about that but try again.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from broker.process.logging import EventLog
from protocol.errors import ErrorCode
from protocol.schema import Primitive, fields_of

DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
FIELD = "error_code"

_log = EventLog("peers")


class Denials:
    """Of one kind of request, named `what`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._denied_by: set[int] = set()

    def answered(self, node_id: int, *errors: int) -> None:
        """A node has answered, with these errors among others."""
        if DENIED.isdisjoint(errors):
            self._denied_by.discard(node_id)
        elif node_id not in self._denied_by:
            self._denied_by.add(node_id)
            _log.error(
                "a node does not let this one ask: is its principal in super.users?", node=node_id, of=self._what
            )


def denied_parts(answer: Any) -> list[Any]:
    """The structs of an answer whose `error_code` says so, itself among them."""
    return [one for one in _parts(answer) if one.error_code in DENIED]


def _parts(struct: Any) -> Iterator[Any]:
    kind: type = type(struct)
    has_error, names = _places(kind)
    if has_error:
        yield struct
    for name in names:
        value = getattr(struct, name)
        for one in value if isinstance(value, Sequence) else () if value is None else (value,):
            yield from _parts(one)


@cache
def _places(struct: type) -> tuple[bool, tuple[str, ...]]:
    """Whether it has an error code, and its fields in which there are some."""
    fields = fields_of(struct)
    within = [one for one in fields if not isinstance(one.element, Primitive) and any(_places(one.element))]
    return any(one.name == FIELD for one in fields), tuple(one.name for one in within)
