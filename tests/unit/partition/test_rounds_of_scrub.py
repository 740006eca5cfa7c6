"""Rounds of the scrub over many partitions: their pace, and what goes on when there is damage."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.partitions.partition import Partition
from storage.log import LogDamaged
from storage.recovery import Recovery
from storage.scrub import Scrub
from storage.segment_log import SegmentLog
from storage.steps import Step
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import SMALL_SEGMENTS, Rig, on_disk, plain
from tests.unit.partition.test_rounds_of_compaction import housekeeping


def filled() -> tuple[Rig, SegmentLog]:
    rig = on_disk(SimulatedFiles())
    for number in range(200):
        rig.produce(plain(b"%03d" % number))
    log = rig.log
    assert isinstance(log, SegmentLog)
    log.flush_now(closing=True)
    rig.partition.committed_moved()
    assert len(log.segments) > 2
    return rig, log


def damage(log: SegmentLog, index: int) -> None:
    assert isinstance(log.files, SimulatedFiles)
    log.files.damage(log.segments[index].path + ".log", 66)


def test_damage_is_reported_once_and_other_logs_are_scrubbed(caplog: pytest.LogCaptureFixture) -> None:
    (one, first), (other, second) = filled(), filled()
    damage(first, 0)
    damage(second, 1)
    keeping = housekeeping([one, other])
    with caplog.at_level(logging.ERROR):
        asyncio.run(keeping.scrub())
        asyncio.run(keeping.scrub())
    assert len(caplog.records) == 2
    assert all("repair" in record.getMessage() + str(record.__dict__) for record in caplog.records)
    with pytest.raises(LogDamaged):
        one.partition.read(0, 1 << 20, read_committed=False)
    assert one.partition.read(1, 1 << 20, read_committed=False).size_bytes
    assert other.partition.read(0, 1 << 20, read_committed=False).size_bytes


def test_a_rate_of_0_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, log = filled()
    monkeypatch.setattr(log, "scrub", lambda _: pytest.fail("nothing is to be read"))
    asyncio.run(housekeeping([rig], tallystick_scrub_io_max_bytes_per_second="0").scrub())


def test_the_pace_is_that_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still: each piece that was read is waited for."""
    rig, log = filled()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    rate = sum(segment.size_bytes for segment in log.segments[:-1]) * 2
    asyncio.run(housekeeping([rig], tallystick_scrub_io_max_bytes_per_second=str(rate)).scrub())
    assert max(waits) == 0.5 and len([wait for wait in waits if wait]) == len(log.segments) - 1


def test_a_topic_deleted_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    (one, first), (other, _) = filled(), filled()
    looked_at: list[Partition] = []
    real = SegmentLog.scrub

    def deleted_at_the_first_step(log: SegmentLog, work: Scrub) -> Iterator[Step]:
        looked_at.append(one.partition if log is first else other.partition)
        for step in real(log, work):
            if log is first:
                one.partition.discard()
            yield step

    monkeypatch.setattr(SegmentLog, "scrub", deleted_at_the_first_step)
    asyncio.run(housekeeping([one, other]).scrub())
    assert looked_at == [one.partition, other.partition]


def test_a_file_that_cannot_be_read_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    (one, first), (other, second) = filled(), filled()
    assert isinstance(first.files, SimulatedFiles)
    first.files.fault = lambda operation, _: OSError(5, "the disk does not answer") if operation == "read" else None
    damage(second, 0)
    with caplog.at_level(logging.ERROR):
        asyncio.run(housekeeping([one, other]).scrub())
    assert len(caplog.records) == 2 and second.segments[0].damage


@pytest.mark.parametrize("operation", ["open", "read"])
def test_retention_goes_on_with_the_other_logs(operation: str, caplog: pytest.LogCaptureFixture) -> None:
    """An index that cannot be read is named once, of its log alone; the broker does not end of it."""
    disks = [disk.kill() for _, log in (filled(), filled()) if isinstance(disk := log.files, SimulatedFiles)]
    path = f"t-0/{0:020d}.timeindex"
    disks[0].fault = lambda what, of: OSError(5, "bad sector") if (what, of) == (operation, path) else None
    brief = replace(SMALL_SEGMENTS, retention_bytes=0)
    one, other = (on_disk(disk, config=brief, recovery=Recovery(clean=True)) for disk in disks)
    keeping = housekeeping([one, other])
    with caplog.at_level(logging.ERROR):
        asyncio.run(keeping.enforce_retention())
        asyncio.run(keeping.enforce_retention())
    assert len(caplog.records) == 1 and "bad sector" in caplog.text
    assert one.log.start_offset == 0 and other.log.start_offset > 0


def test_what_the_opening_of_a_log_finds_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Ends of segments are looked at once, and the first to do so may be the replay of producers."""
    files = SimulatedFiles()
    rig = on_disk(files)
    for _ in range(20):
        rig.produce(plain(b"v" * 50))
    rig.flush()
    files = files.kill()
    for name in files.list("t-0"):
        if name.endswith(".snapshot"):
            files.lose(f"t-0/{name}")
    files.spoil("t-0/00000000000000000000.log", lambda content: content.extend(bytes(content)))
    again = on_disk(files, recovery=Recovery(recovery_point=20, clean=True))
    assert again.partition.end_offset == 20
    assert ["bytes behind its last batch" in record.getMessage() for record in caplog.records] == [True]
