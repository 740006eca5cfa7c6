"""A bound on what the broker remembers of producers: `tallystick.producer.ids.max` (docs/decisions/0009).

Idempotence costs memory per producer and partition, for a day (`producer.id.expiration.ms`), and so does a
transactional batch that was refused after its verification. A client that makes producers by the million would fill it.
Beyond the bound, those that have been silent for longest are forgotten, never one with an open transaction.
"""

import asyncio
import heapq
from collections.abc import Sequence

from broker.partitions.partition import Partition
from storage.producers.producer_entry import HEAD, NO_OFFSET

ENTRIES_PER_SLICE = 10_000
COUNTED_PER_SLICE = 2_000
"""Partitions that are counted, and producers that are forgotten: a microsecond each."""
MOST_AT_ONCE = 20_000
VERIFICATION_MS = 5_000
"""A batch follows its verification at once; a question that is older was refused, or its client is gone."""
SLACK = 0.02
"""How much more than needed is forgotten, so that not every new producer makes all of them be looked at."""

_Found = tuple[int, int, int, bytes]
"""(minus when it was last seen, index of the partition, producer id, its entry)"""


async def enforce(partitions: Sequence[Partition], most: int, now_ms: int) -> int:
    """Forget the producers beyond the bound; returns how many were. The loop breathes meanwhile.

    First those who only ever asked to be verified: nothing of theirs was written.
    """
    total = 0
    for number, partition in enumerate(partitions, 1):
        total += len(partition.derived.producers) + len(partition.verifications)
        if number % COUNTED_PER_SLICE == 0:
            await asyncio.sleep(0)
    if total <= most:
        return 0
    wanted = min(total - most + int(most * SLACK), MOST_AT_ONCE)
    forgotten = 0
    for partition in partitions:
        forgotten += partition.verifications.forget_oldest(wanted - forgotten, now_ms - VERIFICATION_MS)
    if forgotten == wanted:
        return forgotten
    oldest = await _longest_silent(partitions, wanted - forgotten)
    for number, (_, index, producer_id, packed) in enumerate(oldest, 1):
        partition = partitions[index]
        # A producer that has written meanwhile has another entry, and stays.
        if not partition.discarded and partition.derived.producers.forget(producer_id, packed):
            forgotten += 1
        if number % COUNTED_PER_SLICE == 0:
            await asyncio.sleep(0)
    return forgotten


async def _longest_silent(partitions: Sequence[Partition], wanted: int) -> list[_Found]:
    oldest: list[_Found] = []  # a heap whose first is the youngest of them
    for index, partition in enumerate(partitions):
        entries = partition.derived.producers.packed_entries()
        known = partition.derived.producers.ids()
        for begin in range(0, len(known), ENTRIES_PER_SLICE):
            for producer_id in known[begin : begin + ENTRIES_PER_SLICE]:
                packed = entries.get(producer_id)
                if packed is None:
                    continue
                _, _, _, seen_ms, transaction = HEAD.unpack_from(packed)
                if transaction != NO_OFFSET:
                    continue
                if len(oldest) < wanted:
                    heapq.heappush(oldest, (-seen_ms, index, producer_id, packed))
                elif seen_ms < -oldest[0][0]:
                    heapq.heapreplace(oldest, (-seen_ms, index, producer_id, packed))
            await asyncio.sleep(0)
    return oldest
