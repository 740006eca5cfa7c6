"""Why readers of committed records stand still: the transactions that hold a partition's last stable offset.

A partition is held from the first record of its oldest open transaction on. Who it is, is asked in three steps:
ListOffsets says which partitions are held, DescribeProducers which producers hold them, ListTransactions and
DescribeTransactions whose these are (KIP-664).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from protocol.messages.transactions import ProducerState
from tallystick.client.client import Client
from tallystick.inspection.authorized import may_see_every_transaction
from tallystick.inspection.places import Ends, Failed, Place, ends_of
from tallystick.inspection.transactions import DECIDED, Described, described, listed, producers_of


class Cause(Enum):
    """What has to happen before a transaction releases the partition."""

    OPEN = "open"
    """Its producer has to end it, or it runs into its timeout."""
    DECIDED = "decided"
    """Its markers are on their way."""
    HANGING = "hanging"
    """No coordinator knows of it: nobody will end it."""
    UNSEEN = "unseen"
    """No coordinator tells of it to whoever asks, who may not describe every transactional id: it hangs, or it is in
    the best of hands."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One open transaction of a partition."""

    first_offset: int
    producer_id: int
    producer_epoch: int
    last_write_ms: int
    cause: Cause
    transaction: Described | None
    """None where no coordinator lists the producer id."""


@dataclass(frozen=True, slots=True)
class Held:
    """A partition whose readers of committed records cannot go on."""

    place: Place
    ends: Ends
    holders: tuple[Holder, ...]
    """By first offset: the first is the one that is waited for. Empty where the last of them ended meanwhile."""


async def held(client: Client, wanted: Sequence[Place], failed: Failed | None = None) -> list[Held]:
    """Those of the partitions that are held, in order."""
    ends = await ends_of(client, wanted, failed)
    waiting = [
        place for place in wanted if place in ends and ends[place].last_stable_offset < ends[place].high_watermark
    ]
    if not waiting:
        return []
    open_ones = await _open_ones(client, waiting, failed)
    producer_ids = {one.producer_id for ones in open_ones.values() for one in ones}
    transactions = await _transactions(client, producer_ids)
    sees_all = producer_ids <= transactions.keys() or await may_see_every_transaction(client)
    # Whatever ended while the coordinators were asked does not hang. What a coordinator did not know, and is still open
    # behind its answer, does: it knows a transaction from before the first record until behind the last marker.
    still = await _open_ones(client, list(open_ones), failed)
    return [
        Held(
            place,
            ends[place],
            tuple(
                _holder(place, one, transactions.get(one.producer_id), sees_all=sees_all)
                for one in sorted(open_ones[place], key=lambda one: one.current_txn_start_offset)
                if _beginning(one) in map(_beginning, still[place])
            ),
        )
        for place in waiting
        if place in still
    ]


async def _open_ones(
    client: Client, wanted: Sequence[Place], failed: Failed | None
) -> dict[Place, list[ProducerState]]:
    producers = await producers_of(client, wanted, failed)
    return {place: [one for one in its if one.current_txn_start_offset >= 0] for place, its in producers.items()}


def _beginning(one: ProducerState) -> tuple[int, int]:
    return one.producer_id, one.current_txn_start_offset


async def _transactions(client: Client, producer_ids: set[int]) -> dict[int, Described]:
    found = {}
    for one in await listed(client, producer_ids=producer_ids) if producer_ids else ():
        known = await described(client, one.transactional_id)
        if known is not None:
            found[known.producer_id] = known
    return found


def _holder(place: Place, one: ProducerState, transaction: Described | None, *, sees_all: bool) -> Holder:
    cause = Cause.HANGING if transaction is not None or sees_all else Cause.UNSEEN
    if transaction is not None and transaction.is_open and place in transaction.places:
        cause = Cause.DECIDED if transaction.state in DECIDED else Cause.OPEN
    start = one.current_txn_start_offset
    return Holder(start, one.producer_id, one.producer_epoch, one.last_timestamp, cause, transaction)


def ending_words(holder: Holder, place: Place) -> list[str] | None:
    """The command that ends a transaction and is safe: what a coordinator holds is ended by the coordinator. None
    where it is decided already."""
    match holder.cause:
        case Cause.DECIDED | Cause.UNSEEN:
            return None
        case Cause.OPEN:
            assert holder.transaction is not None, "it is open at its coordinator"
            which = ["force-terminate", "--transactional-id", holder.transaction.transactional_id]
        case Cause.HANGING:
            start = str(holder.first_offset)
            which = ["abort", "--topic", place[0], "--partition", str(place[1]), "--start-offset", start]
        case _:
            assert_never(holder.cause)
    return ["tallystick", "transactions", *which]
