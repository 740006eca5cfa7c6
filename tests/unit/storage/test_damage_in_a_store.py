"""Somebody has changed a byte of an object, or has removed it: who wants what was in it is told so, and nothing of the
log is passed over.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from broker.shared.bringing import tail_of
from protocol.records.batch import CorruptRecords
from storage.log import LogDamaged
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import ObjectLost, OwnedLog, StoredRun
from storage.stretch import STRETCH_BYTES
from tests.unit.storage.batches import batch
from tests.unit.storage.test_shared_log import FIRST_EPOCH, TOPIC, Owner, at_once

LARGE = STRETCH_BYTES * 2 // 3
"""Of two that are so large each is brought alone."""


class LosingStore(StoreInMemory):
    """Says of an object that it is lost."""

    lost: int | None = None

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        if self.lost in [one.object_id for one in runs]:
            raise ObjectLost(f"object {self.lost}")
        return await super().read(runs, for_reader=for_reader)


def three_commits(store: StoreInMemory, size_bytes: int) -> tuple[OwnedLog, list[StoredRun]]:
    """A log as it is found after three commits of a batch each, and where they are."""
    owner = Owner(store)
    for number in range(3):
        owner.log.append(batch(number, value=b"v" * size_bytes), leader_epoch=0)
        owner.commit()
    found = at_once(store.look(owner.who, TOPIC, 0, with_kept=True))
    assert found is not None and found.log.next_offset == 3
    return found.log, at_once(store.runs(found.log.log_id, 0, 10))


def damage(store: StoreInMemory, object_id: int) -> None:
    held = store._objects[object_id]
    assert held is not None
    held.data = held.data[:-1] + b"w"


def test_what_is_damaged_between_what_is_not_is_said_and_not_passed_over() -> None:
    store = StoreInMemory(lambda: 0)
    log, runs = three_commits(store, 50)
    assert len(at_once(tail_of(store, log, 0, "t-0"))) == 3
    damage(store, runs[1].object_id)
    with pytest.raises(LogDamaged, match=f"a checksum is wrong in object {runs[1].object_id}$") as damaged:
        at_once(tail_of(store, log, 0, "t-0"))
    assert isinstance(damaged.value.__cause__, CorruptRecords)


def test_a_reader_is_told_what_is_damaged_and_not_what_lies_behind() -> None:
    store = StoreInMemory(lambda: 0)
    log, runs = three_commits(store, LARGE)
    damage(store, runs[1].object_id)
    assert len(at_once(tail_of(store, log, 0, "t-0", enough_bytes=1))) == 1
    assert len(at_once(tail_of(store, log, 2, "t-0"))) == 1
    with pytest.raises(LogDamaged, match=f"at offset 1: a checksum is wrong in object {runs[1].object_id}$"):
        at_once(tail_of(store, log, 1, "t-0"))


@pytest.mark.parametrize("size_bytes", [50, LARGE], ids=["asked-for-with-others", "asked-for-alone"])
def test_what_is_lost_is_said_and_not_passed_over(size_bytes: int) -> None:
    store = LosingStore(lambda: 0)
    log, runs = three_commits(store, size_bytes)
    store.lost = runs[1].object_id
    with pytest.raises(LogDamaged, match=f"at offset 1: object {runs[1].object_id}$"):
        at_once(tail_of(store, log, 0, "t-0"))
    assert len(at_once(tail_of(store, log, 0, "t-0", enough_bytes=1))) == 1
    assert len(at_once(tail_of(store, log, 2, "t-0"))) == 1


def test_a_run_under_an_earlier_epoch_than_the_run_before_is_damaged() -> None:
    """Versions before the fifth of the tables have written no checksum of heads: an epoch that is lower than the last
    one is all that is to be seen of it, and whoever opens the log would build its epochs of it."""
    store = StoreInMemory(lambda: 0)
    owner = Owner(store)
    for number in range(2):
        owner.log.append(batch(number + 1), leader_epoch=FIRST_EPOCH)
        owner.commit()
    log = store._by_id[owner.log.owned.log_id]
    log.runs = [StoredRun(one.object_id, replace(one.run, heads_crc=None)) for one in log.runs]
    held = store._objects[log.runs[1].object_id]
    assert held is not None
    held.data = held.data[:12] + (3).to_bytes(4, "big") + held.data[16:]
    owned = replace(owner.log.owned, next_offset=owner.log.end_offset)
    with pytest.raises(LogDamaged, match="not in its place"):
        at_once(tail_of(store, owned, 0, "t-0"))
