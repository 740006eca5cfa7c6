"""Changes of a table of accounts, each with the version of its row, drawn from the seed; and the table itself.

Changes of aborted transactions carry the version that the next change of the same row will have, and an owner that
no row may ever have. Between the changes are values that are none: each has a number of its own, and says whether its
transaction was aborted.
"""

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

PARTITIONS = 4
ABORTED_SHARE = 0.05
DELETED_SHARE = 0.12
PER_TRANSACTION = 250
MALFORMED_SHARE = 0.02
CHANGES_PER_ACCOUNT = 12
VOID = "nobody"
_MALFORMED = (
    b'{"account": 1, "version": 1000000, "deleted": false, "owner": "%s %d',
    b'{"account": "one", "version": 1000000, "deleted": false, "owner": "%s %d", "balance": 1}',
    b'{"account": 1, "deleted": true, "owner": "%s %d", "balance": 1}',
    b"\xff\xfe %s %d",
    b"[] %s %d",
)
"""Cut off, of a wrong type, without a version, no text, no object. Taken for changes they would make rows wrong."""


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


def encode(value: Change | bytes) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value._asdict()).encode()
