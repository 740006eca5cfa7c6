"""Changes of a table of accounts, each with the version of its row, drawn from the seed; and the table itself.

Changes of aborted transactions carry the version that the next change of the same row will have, and an owner that
no row may ever have.
"""

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

PARTITIONS = 4
ABORTED_SHARE = 0.05
DELETED_SHARE = 0.12
PER_TRANSACTION = 250
CHANGES_PER_ACCOUNT = 12
VOID = "nobody"


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
        self.table: Table = {}
        self.deleted: set[int] = set()

    def transactions(self) -> Iterator[tuple[list[Change], bool]]:
        """The writer's transactions, until `size` changes are committed; True where one is aborted on purpose."""
        committed, void = 0, True
        while committed < self._size:
            each = PER_TRANSACTION if void else min(PER_TRANSACTION, self._size - committed)
            yield [self._change(void=void) for _ in range(each)], void
            committed += 0 if void else each
            void = self._draw.random() < ABORTED_SHARE

    def replayed(self) -> "Source":
        """The same after all of its transactions."""
        for _ in self.transactions():
            pass
        return self

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


def encode(change: Change) -> bytes:
    return json.dumps(change._asdict()).encode()
