"""What a run of the demo is to do, all of it drawn from the seed: who pays whom, and which transactions are
aborted on purpose.

The writer, the workers and the verdict each draw the same plan for themselves; nothing but the seed passes between
them.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass

PARTITIONS = 12
TRANSFERS_TOPIC = "transfers"
LEDGER_TOPIC = "ledger"
GROUP = "ledger-workers"
WORKERS = 3
ACCOUNTS = 1000
ABORTED_SHARE = 0.05

PLANTS = ("skip", "double", "offsets-outside")
"""Faults that may be planted to see the verdict turn red."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One payment; becomes two entries of the ledger that sum to nothing."""

    number: int
    payer: int
    payee: int
    cents: int


@dataclass(frozen=True, slots=True)
class Settings:
    """One run. Handed to the writer and the workers as JSON."""

    bootstrap: str
    transfers: int
    seed: int
    session_ms: int = 6000
    plant: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Settings":
        return Settings(**json.loads(text))

    @property
    def batch(self) -> int:
        """Transfers per transaction, of the writer and (at most) of a worker."""
        return max(20, min(500, self.transfers // 100))

    @property
    def planted_transfer(self) -> int:
        """The transfer that a planted fault skips or doubles."""
        return random.Random(f"{self.seed}/plant").randrange(self.transfers)


def all_transfers(settings: Settings) -> Iterator[Transfer]:
    draw = random.Random(f"{settings.seed}/transfers")
    for number in range(settings.transfers):
        payer = draw.randrange(ACCOUNTS)
        payee = (payer + 1 + draw.randrange(ACCOUNTS - 1)) % ACCOUNTS
        yield Transfer(number, payer, payee, 1 + draw.randrange(100_000))


def batches(settings: Settings) -> Iterator[tuple[list[Transfer], bool]]:
    """The writer's transactions; True where it is first written, aborted on purpose, and written again."""
    draw = random.Random(f"{settings.seed}/aborts")
    batch: list[Transfer] = []
    first = True
    for transfer in all_transfers(settings):
        batch.append(transfer)
        if len(batch) == settings.batch:
            yield batch, draw.random() < ABORTED_SHARE or first
            batch, first = [], False
    if batch:
        yield batch, first


def partition_of(transfer: Transfer) -> int:
    return transfer.number % PARTITIONS


def encode_transfer(transfer: Transfer, *, void: bool) -> bytes:
    """`void` marks what is written in a transaction that is going to be aborted: no reader may see it committed."""
    fields = [transfer.number, transfer.payer, transfer.payee, transfer.cents]
    return json.dumps([*fields, "void"] if void else fields).encode()


def decode_transfer(value: bytes) -> tuple[Transfer, bool]:
    fields = json.loads(value)
    return Transfer(*fields[:4]), len(fields) > 4


def entries_of(transfer: Transfer) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """(transfer, account, cents) twice: what leaves and what arrives."""
    debit = (transfer.number, transfer.payer, -transfer.cents)
    return debit, (transfer.number, transfer.payee, transfer.cents)


def encode_entry(entry: tuple[int, int, int], *, void: bool) -> bytes:
    return json.dumps([*entry, "void"] if void else list(entry)).encode()


def decode_entry(value: bytes) -> tuple[tuple[int, int, int], bool]:
    number, account, cents, *void = json.loads(value)
    return (number, account, cents), bool(void)
