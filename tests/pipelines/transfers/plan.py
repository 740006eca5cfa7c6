"""The transfers, drawn from the seed. Transfers of aborted transactions have numbers of their own: nobody may ever
see one of them.
"""

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

PARTITIONS = 12
ACCOUNTS = 1000
ABORTED_SHARE = 0.05
PER_TRANSACTION = 500


class Transfer(NamedTuple):
    """One payment; becomes two entries of the ledger that sum to nothing."""

    number: int
    payer: int
    payee: int
    cents: int


def transactions(seed: int, size: int) -> Iterator[tuple[list[Transfer], bool]]:
    """The writer's transactions, until `size` transfers are committed; True where one is aborted on purpose. The
    first one always is.
    """
    draw = random.Random(f"{seed}/transfers")
    begin = committed = 0
    void = True
    while committed < size:
        each = PER_TRANSACTION if void else min(PER_TRANSACTION, size - committed)
        batch = []
        for number in range(begin, begin + each):
            payer = draw.randrange(ACCOUNTS)
            payee = (payer + 1 + draw.randrange(ACCOUNTS - 1)) % ACCOUNTS
            batch.append(Transfer(number, payer, payee, 1 + draw.randrange(100_000)))
        begin += each
        committed += 0 if void else each
        yield batch, void
        void = draw.random() < ABORTED_SHARE


def encode(transfer: Transfer) -> bytes:
    return json.dumps(transfer._asdict()).encode()
