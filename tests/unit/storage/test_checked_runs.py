"""What is brought of a run is looked at, whoever wants it; and what others have done meanwhile is no damage."""

import pytest

from broker.shared.bringing import tail_of
from protocol.records.batch import CorruptRecords
from storage.log import LogDamaged
from storage.segments.stamping import stamp
from storage.shared.checked_run import Known, checked_batches
from storage.shared.compacting import SharedPlan
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import Run
from storage.stretch import Stretch
from tests.unit.storage.batches import batch
from tests.unit.storage.test_shared_log import FIRST_EPOCH, TOPIC, Owner, _NoProducers, at_once, finish_all


def test_what_others_have_written_since_a_look_is_no_damage() -> None:
    """Under a later epoch, and written anew in one run with what was there."""
    store = StoreInMemory(lambda: 0)
    owner = Owner(store)
    owner.log.append(batch(1) + batch(2, 3), leader_epoch=FIRST_EPOCH)
    owner.commit()
    found = at_once(store.look(owner.who, TOPIC, 0, with_kept=True))
    assert found is not None
    following = Owner(store)
    following.log.append(batch(4), leader_epoch=2 * FIRST_EPOCH)
    following.log.roll()
    following.commit()
    planned = SharedPlan((), (4,), 0, (following.log.parts[0],), only_runs=True)
    finish_all(following.log.compactor(_NoProducers(), report=lambda _: None).run(planned, 0))
    assert len(at_once(store.runs(found.log.log_id, 0, 10))) == 1
    tail = at_once(tail_of(store, found.log, 0, "t-0"))
    assert [placed.last_offset for placed in tail.placed] == [0, 2]


@pytest.mark.parametrize("only_runs", [True, False])
def test_what_is_damaged_is_not_written_anew(only_runs: bool) -> None:
    """It would have a checksum that is right."""
    store = StoreInMemory(lambda: 0)
    owner = Owner(store, memory_bytes=1)
    for number in range(4):
        owner.log.append(batch(number), leader_epoch=FIRST_EPOCH)
        owner.commit()
        if number == 2:
            owner.log.roll()
    runs = at_once(store.runs(owner.log.owned.log_id, 0, 10))
    held = store._objects[runs[1].object_id]
    assert held is not None
    held.data = (7).to_bytes(8, "big") + held.data[8:]
    planned = SharedPlan((), (3,), 0, (owner.log.parts[0],), only_runs=only_runs)
    with pytest.raises(LogDamaged, match="offset 1: a run is not what was committed in object"):
        finish_all(owner.log.compactor(_NoProducers(), report=lambda _: None).run(planned, 0))
    assert at_once(store.runs(owner.log.owned.log_id, 0, 10)) == runs


def test_a_run_that_is_not_whole_is_damaged_wherever_it_ends_and_whatever_is_left_out() -> None:
    """Also where it was committed without a checksum of heads."""
    pieces, placed = stamp(batch(1, 2) + batch(3) + batch(4, 5), 0, 0)
    whole = b"".join(pieces)
    first, middle = (one.size_bytes for one in placed[:2])

    def check(piece: bytes) -> Stretch:
        found = Stretch()
        list(checked_batches(found, Run(0, 4, 0, len(whole), 5), piece, Known(5, 0), 0))
        return found

    assert check(whole).placed == placed
    for end in range(len(whole)):
        with pytest.raises(CorruptRecords):
            check(whole[:end])
    with pytest.raises(CorruptRecords, match="a run is not what was committed"):
        check(whole[:first] + whole[first + middle :])
