"""What a partition knows after a restart: the same as before. Cites I24, I30, I36; formats as Kafka writes them."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.producers.aborted import AbortedIndex, AbortedTransaction
from storage.producers.aborted_checkpoint import AbortedCheckpoint
from storage.producers.producer_changes import CompletedTransaction
from storage.producers.producer_entry import CachedBatch, ProducerEntry
from storage.producers.producer_snapshot import (
    SnapshotFiles,
    SnapshotUnreadable,
    decode_sidecar,
    decode_snapshot,
    encode_sidecar,
    encode_snapshot,
)
from storage.recovery import Recovery
from tests.harness.read_committed_oracle import Seen
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import DAY_MS, KILLED, NOW_MS, Rig, idempotent, in_transaction, on_disk, plain

GOLDEN_SNAPSHOT = bytes.fromhex(
    "0001e5f331de0000000100000000000000010002000000090000000000000013000000040000018bcfe5680000000003ffffffffffffffff"
)
GOLDEN_ABORTED = bytes.fromhex("00000000000000000001000000000000000a00000000000000140000000000000015")


def state_of(rig: Rig) -> dict[int, ProducerEntry]:
    """Everything but when the broker last heard of a producer: a replay cannot know that."""
    entries = rig.partition.derived.producers.packed_entries()
    return {producer_id: ProducerEntry.unpack(packed)._replace(seen_ms=0) for producer_id, packed in entries.items()}


class History:
    """A random life of a partition on disk, and what its readers must see of it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.files = SimulatedFiles()
        self.rig = on_disk(self.files)
        self.batches: list[tuple[int, int | None, list[bytes], bool | None]] = []
        """(base offset, producer of a transaction, values, how the marker ends it)."""
        self.states: dict[int, dict[int, ProducerEntry]] = {0: {}}
        self.values = 0

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.12:
            self.rig.flush()
        elif choice < 0.17:
            self.restart()
        elif choice < 0.20:
            self.truncate()
        elif choice < 0.35:
            values = self.fresh(self.random.randrange(1, 3))
            self.batches.append((self.rig.produce(plain(*values)).base_offset, None, values, None))
        else:
            self.transact(self.random.randrange(1, 5))
        self.states[self.rig.partition.end_offset] = state_of(self.rig)

    def transact(self, producer_id: int) -> None:
        entry = self.rig.partition.derived.producers.entry(producer_id) or ProducerEntry(epoch=0)
        is_open = entry.transaction_first_offset >= 0
        if is_open and self.random.random() < 0.5:
            commit = self.random.random() < 0.5
            version = self.random.choice([0, 2])
            offset = self.rig.end(producer_id, entry.epoch + (version == 2), commit=commit, version=version)
            self.batches.append((offset, producer_id, [], commit))
        else:
            values = self.fresh(1)
            batch = in_transaction(producer_id, entry.epoch, entry.last_sequence + 1, value=values[0])
            self.batches.append((self.rig.transact(batch).base_offset, producer_id, values, None))

    def fresh(self, count: int) -> list[bytes]:
        self.values += count
        return [b"%d" % (self.values - index) for index in range(count)]

    def restart(self) -> None:
        """A clean stop, a kill, or a power cut; then everything must be as it was at the offset where the log ends."""
        fate = self.random.randrange(3)
        committed = self.rig.partition.high_watermark
        recovery_point = self.rig.partition.log.recovery_point  # type: ignore[attr-defined]
        if fate == 0:
            self.rig.partition.close()
            committed = self.rig.partition.end_offset
            self.files = self.files.kill()
            self.rig = on_disk(self.files, recovery=Recovery(recovery_point=committed, clean=True))
        elif fate == 1:
            committed = self.rig.partition.end_offset
            self.files = self.files.kill()
            self.rig = on_disk(self.files, recovery=KILLED)
        else:
            self.files = self.files.crash(self.random)
            self.rig = on_disk(self.files, recovery=Recovery(recovery_point=recovery_point))
        assert self.rig.partition.end_offset >= committed
        self.cut()
        assert self.rig.partition.high_watermark == self.rig.partition.end_offset

    def truncate(self) -> None:
        """Cut off something that was never committed."""
        partition = self.rig.partition
        bases = [base for base, *_ in self.batches if base >= partition.high_watermark]
        if bases:
            partition.log.truncate(self.random.choice(bases))
            self.cut()

    def cut(self) -> None:
        end = self.rig.partition.end_offset
        self.batches = [batch for batch in self.batches if batch[0] < end]
        assert state_of(self.rig) == self.states[end]

    def check_readers(self) -> None:
        """From everywhere and with any size of fetch, a consumer gets exactly what is decided and not aborted."""
        partition = self.rig.partition
        expected = self.visible()
        for _ in range(6):
            start = self.random.randrange(partition.end_offset + 1)
            wanted = [seen for seen in expected if seen.offset >= start]
            assert self.rig.consume(start, self.random.choice([1, 150, 400, 5000])) == wanted
        start = self.random.randrange(partition.end_offset + 1)
        data = partition.read(start, 1 << 20, read_committed=True)
        assert all(entry.last_offset >= start for entry in data.aborted or [])

    def visible(self) -> list[Seen]:
        stable = self.rig.partition.last_stable_offset
        seen: list[Seen] = []
        waiting: dict[int, list[Seen]] = {}
        for base, producer_id, values, commit in self.batches:
            records = [
                Seen(base + index, None if producer_id is None else b"k", value) for index, value in enumerate(values)
            ]
            if producer_id is None:
                seen += records
            elif commit is None:
                waiting.setdefault(producer_id, []).extend(records)
            else:
                seen += waiting.pop(producer_id, []) if commit else []
                waiting.pop(producer_id, None)
        return sorted(record for record in seen if record.offset < stable)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_kills_and_power_cuts_change_nothing_known_or_seen(seed: int) -> None:
    """I24, I30: random producers over small segments; producer state after any restart equals the state at that
    offset before it, all five batches included, and consumers see exactly what was committed."""
    history = History(Random(seed))
    for number in range(70):
        history.step()
        if number % 10 == 0:
            history.check_readers()
    history.restart()
    history.check_readers()


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, b"\x00\x01garbage and more of it"])
def test_a_damaged_snapshot_only_makes_the_replay_longer(damage: bytes) -> None:
    """I24: the next older one is taken, or the whole log."""
    files = SimulatedFiles()
    rig = on_disk(files)
    for sequence in range(30):
        rig.transact(in_transaction(5, 0, sequence))
        rig.produce(idempotent(6, 0, sequence))
    rig.partition.close()
    known = state_of(rig)
    while snapshots := [name for name in files.list("t-0") if name.endswith(".snapshot")]:
        files.write_whole(f"t-0/{snapshots[-1]}", damage)
        again = on_disk(files)
        assert state_of(again) == known
        assert again.partition.last_stable_offset == 0
        assert snapshots[-1] not in files.list("t-0")


@pytest.mark.parametrize("left", [1, 26, 40, 101])
def test_an_aborted_index_cut_within_an_entry_is_rebuilt(left: int) -> None:
    """I30: also below the snapshot of an orderly end, where a replay would not come by."""
    files = SimulatedFiles()
    rig = on_disk(files)
    for number in range(3):
        rig.transact(in_transaction(5, 0, number))
        rig.end(5, 0, commit=False, version=0)
    known = rig.partition.derived.aborted.collect(0, 100)
    assert len(known) == 3
    rig.partition.close()
    files.open("t-0/00000000000000000000.txnindex").truncate(left)
    again = on_disk(files)
    assert again.partition.derived.aborted.collect(0, 100) == known
    again.transact(in_transaction(5, 0, 3))
    again.end(5, 0, commit=False, version=0)
    assert len(again.partition.derived.aborted.collect(0, 100)) == 4


def test_deduplication_is_as_deep_after_a_restart() -> None:
    files = SimulatedFiles()
    rig = on_disk(files)
    for sequence in range(5):
        rig.produce(idempotent(6, 0, sequence))
    rig.partition.close()
    again = on_disk(files, recovery=Recovery(clean=True))
    assert [again.produce(idempotent(6, 0, sequence)).base_offset for sequence in range(5)] == list(range(5))
    assert again.partition.end_offset == 5


def test_a_foreign_snapshot_is_used_without_our_sidecar() -> None:
    entry = ProducerEntry(2, 3, NOW_MS, NOW_MS, -1, tuple(CachedBatch(n, n, 0, NOW_MS) for n in range(5)))
    entries = {7: entry.pack()}
    snapshot = b"".join(encode_snapshot(entries))
    sidecar = b"".join(encode_sidecar(entries, snapshot))
    assert decode_sidecar(sidecar, snapshot) == entries
    other = b"".join(encode_snapshot({7: entry._replace(epoch=4).pack()}))
    with pytest.raises(SnapshotUnreadable):
        decode_sidecar(sidecar, other)
    assert ProducerEntry.unpack(decode_snapshot(other)[7]) == entry._replace(epoch=4, batches=entry.batches[-1:])


def test_the_snapshot_is_kafkas() -> None:
    entry = ProducerEntry(2, 3, NOW_MS, NOW_MS, -1, (CachedBatch(9, 19, 4, NOW_MS),))
    assert b"".join(encode_snapshot({1: entry.pack()})) == GOLDEN_SNAPSHOT
    assert decode_snapshot(GOLDEN_SNAPSHOT) == {1: entry.pack()}


def test_a_producer_known_by_a_marker_has_no_batch() -> None:
    entry = ProducerEntry(2, 3, NOW_MS, NOW_MS, -1, ())
    assert decode_snapshot(b"".join(encode_snapshot({1: entry.pack()}))) == {1: entry.pack()}


@pytest.mark.parametrize("at", [0, 3, 20, 50])
def test_any_changed_byte_of_a_snapshot_is_noticed(at: int) -> None:
    damaged = bytearray(GOLDEN_SNAPSHOT)
    damaged[at] ^= 1
    with pytest.raises(SnapshotUnreadable):
        decode_snapshot(bytes(damaged))


def test_expired_producers_are_not_restored() -> None:
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.now_ms -= 2 * DAY_MS
    rig.produce(idempotent(6, 0, 0, timestamp_ms=rig.now_ms))
    rig.transact(idempotent(7, 0, 0, transactional=True, timestamp_ms=rig.now_ms))
    rig.now_ms += 2 * DAY_MS
    rig.produce(idempotent(8, 0, 0))
    rig.partition.close()
    assert sorted(state_of(on_disk(files, recovery=Recovery(clean=True)))) == [7, 8]


def test_an_old_snapshot_does_not_outlive_records_that_were_deleted() -> None:
    """What came after the snapshot and before the new log start is gone: its producers must not look stale."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.produce(idempotent(6, 0, 0))
    rig.partition.close()
    rig = on_disk(files, recovery=Recovery(clean=True))
    for sequence in range(1, 4):
        rig.produce(idempotent(6, 0, sequence))
    rig.flush()
    rig.partition.delete_records(4)
    again = on_disk(files.kill(), recovery=Recovery(same_boot=True, log_start_offset=4))
    assert again.produce(idempotent(6, 0, 4)).base_offset == 4


@pytest.mark.parametrize(
    ("durable_offset", "kept"), [(1, [1, 3, 4, 5]), (2, [2, 3, 4, 5]), (3, [3, 4, 5]), (9, [3, 4, 5])]
)
def test_the_newest_snapshot_of_what_is_durable_is_kept(durable_offset: int, kept: list[int]) -> None:
    """I24: after a power cut all that are younger may be of records that are gone. Each goes before what lies beside
    it: a cut leaves none without its own."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    snapshots = SnapshotFiles(files, "t-0")
    gone: list[str] = []
    files.watcher = lambda operation, path: gone.append(path) if operation == "delete" else None
    for offset in range(6):
        snapshots.write(offset, {7: bytes(30)}, durable_offset=min(offset, durable_offset))
    assert snapshots.offsets() == kept
    assert files.list("t-0") == [f"{one:020d}.{kind}" for one in kept for kind in ("producers", "snapshot")]
    snapshots.forget_before(4)
    assert snapshots.offsets() == [4, 5]
    snapshots.write(5, {}, durable_offset=5)
    assert files.list("t-0") == [
        f"{one:020d}.{kind}" for one, kind in ((4, "producers"), (4, "snapshot"), (5, "snapshot"))
    ]
    assert gone.index(f"t-0/{3:020d}.snapshot") < gone.index(f"t-0/{3:020d}.producers")
    assert gone.index(f"t-0/{0:020d}.snapshot") < gone.index(f"t-0/{0:020d}.producers")


# ------------------------------------------------------------------------------------------------------ aborted index


def completed(producer_id: int, first: int, last: int, stable: int) -> CompletedTransaction:
    return CompletedTransaction(producer_id, first, last, True, stable)


def test_an_index_entry_is_kafkas() -> None:
    assert AbortedTransaction(1, 10, 20, 21).pack() == GOLDEN_ABORTED
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0])
    index.append(completed(1, 10, 20, 21))
    file = files.open("t-0/00000000000000000000.txnindex")
    assert file.read(0, 100) == GOLDEN_ABORTED


def test_index_entries_live_with_their_markers() -> None:
    """I30: markers at or behind the fetch offset, beginnings before the end of what was read."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    for backing in (files, None):
        index = AbortedIndex(backing, "t-0", [0])
        index.append(completed(1, 3, 8, 5))
        index.segment_rolled(10)
        index.segment_rolled(20)
        index.append(completed(2, 5, 25, 26))
        assert [entry.producer_id for entry in index.collect(0, 4)] == [1]
        assert [entry.producer_id for entry in index.collect(0, 6)] == [1, 2]
        assert [entry.producer_id for entry in index.collect(8, 30)] == [1, 2]
        assert [entry.producer_id for entry in index.collect(9, 30)] == [2]
        assert index.collect(26, 30) == []
        assert [len(index.entries(base)) for base in (0, 10, 20)] == [1, 0, 1]
        index.trimmed(10)
        assert [entry.producer_id for entry in index.collect(0, 30)] == [2]
    # A start that was not written down goes back in a crash; the file goes when its segment does.
    assert files.list("t-0") == ["00000000000000000000.txnindex", "00000000000000000020.txnindex"]


def test_the_search_stops_where_nothing_older_can_follow() -> None:
    """A look-up reads as far as it must and no further: later entries begin at or behind the recorded bound."""
    index = AbortedIndex(None, "", [0])
    for number in range(1_000):
        index.append(completed(number, number * 10, number * 10 + 9, number * 10 + 10))
    assert [entry.producer_id for entry in index.collect(5_000, 5_020)] == [500, 501]


@pytest.mark.parametrize("tail", [bytes(34), bytes(40), GOLDEN_ABORTED, GOLDEN_ABORTED[:20]])
def test_leftovers_of_a_power_cut_after_the_snapshot_are_truncated(tail: bytes) -> None:
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0])
    for number in range(3):
        index.append(completed(number, number * 10, number * 10 + 9, number * 10 + 10))
    files.open("t-0/00000000000000000000.txnindex").append([tail])
    again = AbortedIndex(files, "t-0", [0])
    again.truncate(30)
    assert [entry.producer_id for entry in again.collect(0, 100)] == [0, 1, 2]
    again.truncate(25)
    assert again.last_offset == 19
    again.append(completed(2, 20, 29, 30))


def test_of_two_checkpoints_the_later_stays_whichever_is_written_last() -> None:
    files = SimulatedFiles()
    files.make_folder("t-0")
    checkpoint = AbortedCheckpoint(files, "t-0")
    earlier, later = checkpoint.take({0: (1, 5)}), checkpoint.take({0: (2, 7)})
    assert earlier is not None and later is not None
    later()
    earlier()
    assert AbortedCheckpoint(files, "t-0").known == {0: (2, 7)}


def test_a_checkpoint_that_could_not_be_written_is_written_when_asked_again() -> None:
    """A snapshot that is tried once more vouches for it."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    checkpoint = AbortedCheckpoint(files, "t-0")
    write = checkpoint.take({0: (1, 5)})
    assert write is not None
    files.fault = lambda operation, path: OSError("full")
    with pytest.raises(OSError, match="full"):
        write()
    files.fault = None
    write()
    assert AbortedCheckpoint(files, "t-0").known == {0: (1, 5)}
