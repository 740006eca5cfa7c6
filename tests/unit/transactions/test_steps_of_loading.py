"""How much of a log is read and replayed between two looks at the clock, and what is said of a batch that is broken."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coordinator import loading
from coordinator.loading import STEP_BATCHES, STEP_RECORDS, UnreadableLog, entries_of, replaying
from coordinator.machine import Record, ReplayedRecord
from protocol.records.batch import seal
from protocol.records.record import NewRecord, build_batch
from tests.harness.memory_shard_log import MemoryShardLog


class Work:
    """Counts what is done in each step."""

    def __init__(self) -> None:
        self.steps = [0]

    def counting(self, iterate: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def counted(*arguments: Any) -> Iterator[Any]:
            for one in iterate(*arguments):
                self.steps[-1] += 1
                yield one

        return counted

    def through(self, log: MemoryShardLog, replay: Callable[[Any], None] = lambda entry: None) -> None:
        for _ in replaying(log, replay, max_bytes=1 << 20):
            self.steps.append(0)


def log_of(*batches: int) -> MemoryShardLog:
    """Batches of so many records each."""
    log = MemoryShardLog()
    for count in batches:
        log.append([Record(b"k%d" % one, b"v") for one in range(count)], stamp=None, now_ms=1)
    return log


def test_few_batches_are_read_in_a_step_though_they_hold_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    monkeypatch.setattr(loading, "headers_in", work.counting(loading.headers_in))
    monkeypatch.setattr(loading, "STEP_RECORDS", 1 << 30)
    work.through(log_of(*[1] * (10 * STEP_BATCHES)))
    assert max(work.steps) == STEP_BATCHES
    assert len(work.steps) < 15, "and no fewer than that"


def test_few_records_are_read_in_a_step_though_one_batch_holds_many(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    monkeypatch.setattr(loading, "records_in", work.counting(loading.records_in))
    work.through(log_of(10 * STEP_RECORDS))
    assert max(work.steps) == STEP_RECORDS
    assert len(work.steps) < 25, "some to read them, as many to replay them, and no more"


def test_few_records_are_replayed_in_a_step() -> None:
    work = Work()

    def replay(entry: Any) -> None:
        work.steps[-1] += 1

    work.through(log_of(10 * STEP_RECORDS), replay)
    assert max(work.steps) == STEP_RECORDS and sum(work.steps) == 10 * STEP_RECORDS


def test_a_read_is_a_step_of_its_own() -> None:
    """It looks at every checksum."""
    reads = Work()

    class Watched(MemoryShardLog):
        def read(self, offset: int, max_bytes: int) -> Any:
            reads.steps[-1] += 1
            return super().read(offset, 1)

    log = Watched()
    for batch in range(5):
        log.append([Record(b"k%d" % batch, b"v")], stamp=None, now_ms=1)
    reads.through(log)
    assert max(reads.steps) == 1 and sum(reads.steps) == 5


def test_the_record_that_cannot_be_read_is_named_and_those_before_it_were_handed_out() -> None:
    batch = bytearray(build_batch([NewRecord(key=b"k", value=b"v") for _ in range(4)], base_offset=70))
    each = (len(batch) - 61) // 4
    batch[61 + 2 * each] = 0x7E  # The length of the third: more than there is.
    seal(batch)
    found = []
    with pytest.raises(UnreadableLog, match="offset 72: ") as caught:
        for entry, _ in entries_of(bytes(batch)):
            assert isinstance(entry, ReplayedRecord)
            found.append(entry.offset)
    assert (caught.value.offset, found) == (72, [70, 71])
