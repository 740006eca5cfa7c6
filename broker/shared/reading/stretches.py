"""A stretch of a log: which runs it is of, and what is in them."""

from collections.abc import Iterable, Sequence

from protocol.records.batch import CorruptRecords
from storage.log import LogDamaged
from storage.shared.store import ObjectLost, SharedStore, StoredRun
from storage.stretch import Stretch, stretch_of

RUNS_AT_ONCE = 500


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


async def stretch_in(
    store: SharedStore, wanted: Sequence[StoredRun], offset: int, name: str, *, for_reader: bool
) -> Stretch:
    """What is in some runs of a log, one behind the other, of which the first holds an offset. Raises
    `StoreUnreachable`, `LogDamaged`, `ObjectMissing`."""
    expected = wanted[-1].run.last_offset + 1
    try:
        pieces = await store.read(wanted, for_reader=for_reader)
    except ObjectLost as lost:
        raise LogDamaged(name, None, offset, str(lost), expected) from lost
    try:
        stretch = stretch_of(pieces)
    except CorruptRecords as error:
        damaged = next(one for one, piece in zip(wanted, pieces, strict=True) if _is_damaged(piece))
        reason = f"{error} in {await store.name_of(damaged.object_id)}"
        raise LogDamaged(name, None, offset, reason, expected) from error
    if not len(stretch) or stretch.placed[-1].last_offset + 1 != expected:
        reason = f"a run is not what was committed in {await store.name_of(wanted[-1].object_id)}"
        raise LogDamaged(name, None, offset, reason, expected)
    return stretch


def _is_damaged(piece: bytes) -> bool:
    try:
        stretch_of([piece])
    except CorruptRecords:
        return True
    return False
