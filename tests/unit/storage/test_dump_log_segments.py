"""Kafka's own DumpLogSegments reads what we write: logs, both indexes, rolled, recovered and truncated."""

import os
import subprocess
from pathlib import Path

import pytest

from broker.disk.local_files import LocalFiles
from protocol.records.control import end_transaction_marker
from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.jars import JarsMissing, class_path, java
from tests.unit.storage.batches import batch, batches_of

COMPLAINTS = ("mismatch", "corrupt", "Could not", "Exception", "isvalid: false", "Invalid", "not found", "out of order")


def kafka_class_path() -> str:
    """`TALLYSTICK_KAFKA_JARS` names a folder of jars; otherwise `.jars/kafka`."""
    folder = os.environ.get("TALLYSTICK_KAFKA_JARS")
    if folder and java() is not None:
        return f"{folder}/*"
    try:
        return class_path("kafka")
    except JarsMissing as missing:
        pytest.skip(str(missing))


def dump(*options: str, files: list[Path]) -> str:
    program = [str(java()), "-Xmx256m", "-cp", kafka_class_path(), "org.apache.kafka.tools.DumpLogSegments"]
    names = ",".join(str(path) for path in files)
    done = subprocess.run([*program, *options, "--files", names], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def write_log(root: Path) -> None:
    """Batches of many sizes, times that go up and down, markers, rolls, a truncation, a kill."""
    files = LocalFiles(str(root))
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=512)

    def open_log(recovery: Recovery) -> SegmentLog:
        return SegmentLog.open(files, "t-0", config, now_ms=lambda: 0, recovery=recovery)

    log = open_log(Recovery())
    for number in range(300):
        log.append(
            batches_of(1 + number % 3, 20 + number % 90, 1_000 + (number * 37) % 400), leader_epoch=number // 100
        )
        if number % 10 == 0:
            marker = end_transaction_marker(
                producer_id=7, producer_epoch=1, commit=number % 20 == 0, coordinator_epoch=1, timestamp_ms=number
            )
            log.append(marker, leader_epoch=number // 100)
    log.truncate(log.end_offset - 40)
    for number in range(50):
        log.append(batch(2_000 + number, 1_990 + number), leader_epoch=3)
    log.abandon()
    log = open_log(Recovery())
    for number in range(50):
        log.append(batch(3_000 - number), leader_epoch=4)
    log.close()
    files.close()


def test_kafka_reads_logs_and_indexes_without_a_complaint(tmp_path: Path) -> None:
    kafka_class_path()
    write_log(tmp_path)
    folder = tmp_path / "t-0"
    logs, indexes, times = (sorted(folder.glob(f"*.{suffix}")) for suffix in ("log", "index", "timeindex"))
    assert len(logs) > 1
    assert sum(path.stat().st_size for path in indexes) > 8 * 20
    assert sum(path.stat().st_size for path in times) > 12 * 5
    said = dump("--deep-iteration", files=[*logs, *indexes, *times])
    for complaint in COMPLAINTS:
        assert complaint not in said, said[-3_000:]
    # The tool begins each file with -1 and wonders at every segment that does not begin at 0.
    wonders = [line for line in said.splitlines() if "is followed by" in line]
    assert wonders and all(line.strip().startswith("-1 is followed by") for line in wonders)
    assert said.count("isControl: true") == 29
    assert "timestamp: 3000" in said


def test_kafka_finds_the_indexes_sane(tmp_path: Path) -> None:
    kafka_class_path()
    write_log(tmp_path)
    indexes = sorted((tmp_path / "t-0").glob("*.index")) + sorted((tmp_path / "t-0").glob("*.timeindex"))
    said = dump("--index-sanity-check", files=indexes)
    assert said.count("passed sanity check") == len(indexes), said
