"""A stretch of a log: which runs it is of, and what is in them."""

from collections.abc import Callable, Iterable, Sequence

from broker.process.time_slice import TimeSlice
from protocol.records.batch import CorruptRecords
from storage.log import LogDamaged
from storage.shared.checked_run import Known, checked_batches
from storage.shared.shared_log import SharedLog
from storage.shared.store import ObjectLost, SharedStore, StoredRun
from storage.stretch import Stretch

Turns = Callable[[], TimeSlice]
RUNS_AT_ONCE = 500
NO_EPOCH = -1


def first_stretch(runs: Iterable[StoredRun], offset: int, most_bytes: int) -> list[StoredRun]:
    """The runs that hold what lies at an offset, and what follows without a gap: so much, or one that is larger. None
    where nothing lies there."""
    wanted: list[StoredRun] = []
    size_bytes, expected = 0, offset
    for one in runs:
        if one.run.base_offset > expected or (wanted and size_bytes + one.run.size_bytes > most_bytes):
            break
        wanted.append(one)
        size_bytes += one.run.size_bytes
        expected = one.run.last_offset + 1
    return wanted


def known_of(log: SharedLog) -> Known:
    return Known(log.end_offset, max(log.owned.owner_epoch, log.latest_epoch()))


async def stretch_in(
    store: SharedStore,
    wanted: Sequence[StoredRun],
    offset: int,
    name: str,
    known: Known,
    *,
    turns: Turns | None = None,
    after_epoch: int = NO_EPOCH,
) -> Stretch:
    """What is in some runs of a log, one behind the other, of which the first holds an offset: up to a run that is
    damaged, if there is one; what lies before is under `after_epoch`. With `turns` it is for a reader: others go on
    meanwhile. Raises `StoreUnreachable`, `LogDamaged`, `ObjectMissing`."""
    pieces = await _pieces_of(store, wanted, offset, name, for_reader=turns is not None)
    stretch, epoch, reached = Stretch(), after_epoch, after_epoch
    time_slice = None if turns is None else turns()
    for one, piece in zip(wanted, pieces, strict=False):
        found = Stretch()
        try:
            for leader_epoch in checked_batches(found, one.run, piece, known, epoch):
                reached = leader_epoch
                if time_slice is not None and time_slice.spent():
                    await time_slice.wait_for_turn()
        except CorruptRecords as error:
            if len(stretch):
                break  # It is said to who asks for what lies there.
            reason = f"{error} in {await store.name_of(one.object_id)}"
            raise LogDamaged(name, None, offset, reason, one.run.last_offset + 1) from error
        stretch.extend(found)
        epoch = reached
    return stretch


async def _pieces_of(
    store: SharedStore, wanted: Sequence[StoredRun], offset: int, name: str, *, for_reader: bool
) -> list[bytes]:
    """The bytes of these runs; of the first alone, where others have lost theirs. Raises what `stretch_in` does."""
    try:
        return await store.read(wanted, for_reader=for_reader)
    except ObjectLost as lost:
        if len(wanted) > 1:
            return await _pieces_of(store, wanted[:1], offset, name, for_reader=for_reader)
        raise LogDamaged(name, None, offset, str(lost), wanted[0].run.last_offset + 1) from lost
