"""Changes of a table of accounts, each with the version of its row, drawn from the seed; and the table itself. A change
is Avro, as a Schema Registry's serialiser writes it.

Changes of aborted transactions carry the version that the next change of the same row will have, and an owner that
no row may ever have. Between the changes are values that are none: each has a number of its own, and says whether its
transaction was aborted.
"""

import json
import random
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import fastavro

from tallystick.schemas.wire import framed
from tests.harness.schema_registry import FakeRegistry

PARTITIONS = 4
ABORTED_SHARE = 0.05
DELETED_SHARE = 0.12
PER_TRANSACTION = 250
MALFORMED_SHARE = 0.02
CHANGES_PER_ACCOUNT = 12
VOID = "nobody"
_FIELDS = {"account": "long", "version": "long", "deleted": "boolean", "owner": "string", "balance": "long"}
_RECORD = {"type": "record", "name": "Change", "fields": [{"name": n, "type": kind} for n, kind in _FIELDS.items()]}
_SCHEMA: Any = fastavro.parse_schema(_RECORD)
_CHANGE_ID, _JSON_ID, _UNKNOWN_ID = 1, 2, 999
_MALFORMED = (
    b'{"account": 1, "version": 1000000, "deleted": false, "owner": "%s %d", "balance": 1}',
    framed(_CHANGE_ID, b"\2\2\0") + b"%s %d",
    framed(_UNKNOWN_ID, b"\2\2\0") + b"%s %d",
    framed(_JSON_ID, b'{"account": 1}') + b"%s %d",
    b"\xff\xfe %s %d",
)
"""Without a schema's id, cut off, with an id that the registry does not know, of another format, no text."""


class Change(NamedTuple):
    """One change of one row; versions go on through a delete."""

    account: int
    version: int
    deleted: bool
    owner: str
    balance: int


Table = dict[int, Change]
"""The last change of each account that is not deleted."""


class Source:
    """The table that changes are captured from."""

    def __init__(self, seed: int, size: int) -> None:
        self._draw = random.Random(f"{seed}/accounts")
        self._size = size
        self._accounts = max(10, size // CHANGES_PER_ACCOUNT)
        self._versions: dict[int, int] = {}
        self._malformed = 0
        self.table: Table = {}
        self.deleted: set[int] = set()
        self.dead_letters: list[bytes] = []
        """The malformed values of committed transactions."""

    def transactions(self) -> Iterator[tuple[list[Change | bytes], bool]]:
        """The writer's transactions, until `size` values are committed; True where one is aborted on purpose. Bytes are
        a malformed value. The first one of a transaction always is.
        """
        committed, void = 0, True
        while committed < self._size:
            each = PER_TRANSACTION if void else min(PER_TRANSACTION, self._size - committed)
            yield [self._value(void=void, first=number == 0) for number in range(each)], void
            committed += 0 if void else each
            void = self._draw.random() < ABORTED_SHARE

    def replayed(self) -> "Source":
        """The same after all of its transactions."""
        for _ in self.transactions():
            pass
        return self

    def _value(self, *, void: bool, first: bool) -> Change | bytes:
        if not first and self._draw.random() >= MALFORMED_SHARE:
            return self._change(void=void)
        self._malformed += 1
        form = _MALFORMED[self._malformed % len(_MALFORMED)]
        value = form % (VOID.encode() if void else b"somebody", self._malformed)
        if not void:
            self.dead_letters.append(value)
        return value

    def _change(self, *, void: bool) -> Change:
        draw = self._draw
        account = draw.randrange(self._accounts)
        version = self._versions.get(account, 0) + 1
        deleted = account in self.table and draw.random() < DELETED_SHARE
        owner = VOID if void else f"owner-{draw.randrange(1000)}"
        change = Change(account, version, deleted, owner, draw.randrange(1_000_000))
        if not void:
            self._versions[account] = version
            if deleted:
                del self.table[account]
                self.deleted.add(account)
            else:
                self.table[account] = change
                self.deleted.discard(account)
        return change


def register_schemas(registry: FakeRegistry, topic: str) -> None:
    """The ids are those that the values have in front."""
    number = registry.register(f"{topic}-value", "AVRO", json.dumps(_RECORD))
    other = registry.register("another-value", "JSON", '{"type": "object"}')
    assert (number, other) == (_CHANGE_ID, _JSON_ID)


def encode(value: Change | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    stream = BytesIO()
    fastavro.schemaless_writer(stream, _SCHEMA, value._asdict())
    return framed(_CHANGE_ID, stream.getvalue())
