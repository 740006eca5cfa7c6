"""Partitions at their limits: what is asked at which age, what happens when a step fails, names that are too long."""

import asyncio

import pytest

from broker.config.topic_config import RecordChecks, TopicConfig
from broker.partitions.append import FEW_RECORDS, CheckedBatch, check_batch, the_only_batch
from broker.partitions.errors import AppendError
from broker.partitions.inspection import _check_all
from broker.partitions.opening import BatchOpener
from broker.partitions.partition_store import DELETED, FolderStore
from broker.partitions.read import FetchedData
from broker.process.environment import RealEnvironment
from broker.process.time_slice import TimeSlice
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.records import compression
from protocol.records.batch import CONTROL, read_header
from protocol.records.control import control_key
from protocol.records.record import NewRecord, build_batch
from storage.log import LogConfig, StorageFailed
from storage.producers.aborted import AbortedTransaction
from storage.recovery import Recovery
from storage.steps import RECORDS_AT_ONCE
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import DAY_MS, NOW_MS, Rig, idempotent, in_transaction, on_disk
from tests.unit.partition.test_append_checks import changed


def test_a_question_is_forgotten_when_it_is_as_old_as_a_producer_may_be() -> None:
    rig = Rig()
    rig.partition.verifications.begin(1, 0, 0, supports_epoch_bump=True, now_ms=NOW_MS)
    assert rig.partition.expire_producers(NOW_MS + DAY_MS - 1)
    assert len(rig.partition.verifications) == 1
    assert rig.partition.expire_producers(NOW_MS + DAY_MS)
    assert len(rig.partition.verifications) == 0


def test_what_producers_did_is_not_written_down_where_their_records_could_not_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, done = Rig(), []

    def fails() -> None:
        done.append("flush")
        raise StorageFailed("no")

    monkeypatch.setattr(rig.partition.log, "flush_now", fails)
    monkeypatch.setattr(rig.partition.derived, "close", lambda: done.append("derived"))
    monkeypatch.setattr(rig.partition.log, "close", lambda: done.append("close"))
    with pytest.raises(StorageFailed):
        rig.partition.close()
    assert done == ["flush", "close"]


def test_records_are_looked_at_some_at_a_time_and_the_latest_counts() -> None:
    count = 2 * RECORDS_AT_ONCE + 1
    made = [NewRecord(key=None, value=b"v", timestamp_ms=NOW_MS - index) for index in range(count)]
    batch = build_batch(made, base_offset=0)
    header, asked = read_header(batch), []

    def spent() -> bool:
        asked.append(len(asked))
        return True

    steps = _check_all(memoryview(batch)[61:], header, TopicConfig(), "t-0", NOW_MS, spent)
    paused = 0
    try:
        while True:
            next(steps)
            paused += 1
    except StopIteration as end:
        assert end.value == NOW_MS
    assert (len(asked), paused) == (3, 3)


class ShortNames(SimulatedFiles):
    """A disk whose names end early."""

    longest = 255

    def longest_name(self) -> int:
        return self.longest


def store_on(files: SimulatedFiles) -> FolderStore:
    return FolderStore(files, now_ms=lambda: 0, recovery=lambda *_: Recovery(), delete_delay_ms=lambda: 0)


@pytest.mark.parametrize(("longest", "name"), [(255, 249), (256, 249), (254, 248), (143, 137)])
def test_a_topic_has_a_name_that_its_folders_can_have(longest: int, name: int) -> None:
    files = ShortNames()
    files.longest = longest
    assert store_on(files).longest_topic_name() == name


@pytest.mark.parametrize(("longest", "kept"), [(143, 88), (57, 2), (56, 1), (20, 1)])
def test_a_folder_that_is_to_go_has_a_name_that_the_disk_takes(longest: int, kept: int) -> None:
    files = ShortNames()
    files.longest = longest
    topic, topic_id = "t" * 100, bytes(16)
    store = store_on(files)
    log = store.open(topic, topic_id, 0, LogConfig())
    store.release(log)
    store.remove(topic, topic_id, [0], files)
    assert files.list("") == [f"{'t' * kept}.{topic_id.hex()}{DELETED}"]


def test_nothing_is_deleted_that_does_not_look_like_ours() -> None:
    files = SimulatedFiles()
    files.make_folder(f"mine{DELETED}")
    store = store_on(files)
    assert list(store.tidy(lambda *_: None)) == []
    assert store.sweep() is None
    assert files.exists(f"mine{DELETED}")


def test_the_length_of_a_batch_has_four_bytes() -> None:
    """Of one that says it is long, and is cut short, nothing is said but that there is none."""
    batch = bytearray(build_batch([NewRecord(key=None, value=b"v", timestamp_ms=0)], base_offset=0))
    for length in (0x01000000, 0x7F000000):
        batch[8:12] = length.to_bytes(4, "big")
        with pytest.raises(AppendError, match="must carry a record batch") as refused:
            the_only_batch(memoryview(batch))
        assert refused.value.code is ErrorCode.INVALID_RECORD


def batch_of(count: int, producer_id: int = -1, epoch: int = -1) -> bytes:
    made = [NewRecord(key=None, value=b"v", timestamp_ms=NOW_MS) for _ in range(count)]
    sequence = -1 if producer_id < 0 else 0
    return build_batch(made, base_offset=0, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_the_first_and_the_last_offset_of_what_was_appended_are_told() -> None:
    rig = Rig()
    for records, first, last in ((2, 0, 1), (3, 2, 4)):
        appended = rig.produce(batch_of(records))
        assert (appended.base_offset, appended.last_offset) == (first, last)


def test_the_first_producer_id_of_all_is_known_and_fenced_as_any_other() -> None:
    rig = Rig()
    assert rig.partition.append_records(batch_of(1, 0, 5), now_ms=NOW_MS) == 0
    assert list(rig.producers) == [0]
    with pytest.raises(AppendError) as refused:
        rig.partition.append_records(batch_of(1, 0, 4), now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rig.partition.append_records(batch_of(1), now_ms=NOW_MS) == 1
    assert list(rig.producers) == [0]


def test_who_is_refused_reads_why() -> None:
    """Numbers of the log line are those of the batch and of the partition."""
    rig = Rig()
    rig.transact(in_transaction(7, 5, 0))
    rig.partition.append_marker(Marker(7, 6, True, 3, 2), NOW_MS)
    rig.produce(idempotent(7, 6, 0, 2))
    for batch, said in (
        (idempotent(7, 4, 9), "Epoch 4 of producer 7 is smaller than the last seen epoch 6"),
        (idempotent(7, 6, 9), "Out of order sequence number for producer 7: 9 came, 2 was expected"),
        (idempotent(7, 8, 9), "Out of order sequence number for producer 7: 9 came, 0 was expected"),
    ):
        with pytest.raises(AppendError, match=f": {said} in t-0$"):
            rig.produce(batch)
    for epoch, coordinator_epoch, said in (
        (4, 3, "Marker epoch 4 of producer 7 does not follow epoch 6"),
        (9, 2, "Coordinator epoch 2 for producer 7 is smaller than the last seen 3"),
    ):
        with pytest.raises(AppendError, match=f": {said} in t-0$"):
            rig.partition.append_marker(Marker(7, epoch, True, coordinator_epoch, 2), NOW_MS)
    rig.transact(in_transaction(7, 7, 0))
    with pytest.raises(AppendError, match=r"Expected transactional write from producer 7 in t-0$"):
        rig.produce(idempotent(7, 7, 1))
    with pytest.raises(AppendError, match=r"epoch 6 is smaller than 7 in t-0$"):
        rig.partition.begin_verification(7, 6, 0, supports_epoch_bump=True)


@pytest.mark.parametrize("count", [FEW_RECORDS, FEW_RECORDS + 1])
def test_a_batch_that_needs_no_change_is_written_as_it_came(count: int) -> None:
    """Also where all its records were read."""
    data = memoryview(batch_of(count))
    config = TopicConfig(record_checks=RecordChecks.ALL)
    checked = check_batch(data, config, "t-0", now_ms=NOW_MS, zstd_allowed=True, log_start_offset=0)
    assert isinstance(checked.batch, memoryview) and checked.batch.obj is data.obj


@pytest.mark.parametrize(
    ("max_bytes", "at_least_one"), [(1 << 20, True), (-1, True), (0, True), (0, False), (1, False)]
)
def test_aborted_transactions_are_told_to_those_who_read_what_is_committed(max_bytes: int, at_least_one: bool) -> None:
    """Null to all others, as in Kafka, however little they may read; and to nobody who reads nothing."""
    rig = Rig()
    rig.transact(in_transaction(7, 0, 0))
    rig.end(7, 1, commit=False)
    rig.flush()
    asked = rig.partition.read(0, max_bytes, read_committed=True, at_least_one=at_least_one)
    told = [AbortedTransaction(7, 0, 1, 2)] if asked.records else [] if max_bytes <= 0 else None
    assert asked == FetchedData(asked.records, 2, 2, 0, told)
    plainly = rig.partition.read(0, max_bytes, read_committed=False, at_least_one=at_least_one)
    assert plainly == FetchedData(asked.records, 2, 2, 0, None)


def test_a_control_batch_that_ends_no_transaction_is_no_marker() -> None:
    """A log that Kafka wrote may hold others: a leader that changed says so."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.transact(in_transaction(7, 3, 0))
    told = build_batch([NewRecord(b"", control_key(2), NOW_MS)], producer_id=7, producer_epoch=3)
    rig.log.append(changed(told, attributes=CONTROL), leader_epoch=1)
    rig.flush()
    again = on_disk(files.kill())
    assert (again.partition.end_offset, again.partition.last_stable_offset) == (2, 0)
    assert list(again.producers) == [7]


def test_who_had_the_loop_for_long_opens_a_batch_in_its_next_turn() -> None:
    rig, clock, order = Rig(), iter([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), list[str]()
    batch = memoryview(build_batch([NewRecord(b"v", b"k", NOW_MS)], compression=compression.LZ4))

    async def opening() -> object:
        slice_ = TimeSlice(lambda: next(clock))
        asyncio.get_running_loop().call_soon(order.append, "others")
        opener = BatchOpener(RealEnvironment(None))
        found = await opener.open(
            rig.partition, batch, read_header(batch), now_ms=NOW_MS, zstd_allowed=True, slice_=slice_
        )
        order.append("opened")
        return found

    assert isinstance(asyncio.run(opening()), CheckedBatch)
    assert order == ["others", "opened"]
