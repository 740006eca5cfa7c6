"""Kafka's own DumpLogSegments reads every file of the data folder that all other client tests have written to.

Runs last in its folder (see conftest). The broker is killed, restarted and stopped first, so that the files have
seen that too.
"""

import re
import subprocess
from pathlib import Path

import pytest

from protocol.records.batch import headers_in
from tests.harness import jars
from tests.harness.broker import Target
from tests.harness.confluent import SECONDS, consumer, make_topic, producer, wait_until, write

SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
COMPLAINTS = (
    "mismatch",
    "isvalid: false",
    "invalid bytes",
    "could not",
    "exception",
    "corrupt",
    "found timestamp",
    "not found in the log",
    "non-consecutive",
)
FROM_ITS_START = re.compile(r"Non-consecutive offsets in \S*?(\d{20})\.log\n  -1 is followed by (\d+)\n(?!  )")
"""The tool counts each file from -1 on: a segment that begins later, as it should, is reported as if it had a hole."""


def dump(files: list[Path], *options: str) -> str:
    """What DumpLogSegments says of these files."""
    command = [str(jars.java()), "-Xmx256m", "-cp", jars.class_path("kafka"), "org.apache.kafka.tools.DumpLogSegments"]
    names = ",".join(str(path) for path in files)
    done = subprocess.run(
        [*command, *options, "--files", names], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def complaints(output: str) -> list[str]:
    report = FROM_ITS_START.sub(lambda found: "" if int(found[1]) == int(found[2]) else found[0], output)
    return [line for line in report.splitlines() if any(word in line.lower() for word in COMPLAINTS)]


@pytest.fixture(scope="module")
def data_folder(target: Target) -> Path:
    """The stopped broker's data folder."""
    process = target.own_process()
    try:
        jars.class_path("kafka")
    except jars.JarsMissing as reason:
        pytest.skip(f"DumpLogSegments needs Java and Kafka's jars: {reason}")
    _some_of_everything(target.bootstrap)
    process.kill()
    process.start()
    write(process.bootstrap, "dumped", [b"after the kill"])
    process.stop()
    return process.data


def _some_of_everything(bootstrap: str) -> None:
    """So that this test says something when it runs alone."""
    make_topic(bootstrap, "dumped", 2)
    write(bootstrap, "dumped", [b"x" * 100] * 500, compression__type="lz4")
    sender = producer(bootstrap, transactional__id="dumped")
    sender.init_transactions(SECONDS)
    for end in (sender.commit_transaction, sender.abort_transaction):
        sender.begin_transaction()
        sender.produce("dumped", b"in a transaction", partition=0)
        sender.flush(SECONDS)
        end(SECONDS)
    member = consumer(bootstrap, group__id="dumped", group__protocol="consumer")
    member.subscribe(["dumped"])
    wait_until(lambda: member.poll(0.1) or member.assignment(), "a member of a consumer group has its assignment")
    member.close()


def of_topic(folder: Path, prefix: str) -> list[Path]:
    return [path for path in _all_files(folder) if path.parent.name.startswith(prefix)]


def _all_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def test_every_file_is_read_without_a_complaint(data_folder: Path) -> None:
    files = [path for path in _all_files(data_folder) if path.stat().st_size]
    assert {path.suffix for path in files} >= {".log", ".snapshot", ".txnindex"}
    output = dump(files, "--deep-iteration")
    assert "isvalid: true" in output
    assert complaints(output) == []


def test_the_transaction_log_is_decoded(data_folder: Path) -> None:
    logs = [path for path in of_topic(data_folder, "__transaction_state-") if path.suffix == ".log"]
    output = dump(logs, "--deep-iteration", "--transaction-log-decoder")
    assert complaints(output) == []
    assert '"transactionalId"' in output
    assert '"transactionStatus":4' in output and '"transactionStatus":5' in output, "CompleteCommit, CompleteAbort"


def test_the_offsets_log_is_decoded(data_folder: Path) -> None:
    logs = [path for path in of_topic(data_folder, "__consumer_offsets-") if path.suffix == ".log"]
    output = dump(logs, "--deep-iteration", "--offsets-decoder")
    assert complaints(output) == []
    kinds = {int(kind) for kind in re.findall(r'key: {"type":"(\d+)"', output)}
    assert kinds >= {3, 5, 6, 7, 8}, "epoch of a group, its members, epoch of its target, targets, assignments"


def test_the_metadata_log_is_decoded(data_folder: Path) -> None:
    logs = [path for path in of_topic(data_folder, "__cluster_metadata-") if path.suffix == ".log"]
    output = dump(logs, "--cluster-metadata-decoder")
    assert complaints(output) == []
    assert "TOPIC_RECORD" in output and "PARTITION_RECORD" in output


@pytest.mark.parametrize("at", [19, -5], ids=["checksum", "records"])
def test_a_damaged_file_would_be_noticed(data_folder: Path, tmp_path: Path, at: int) -> None:
    """What the other tests look for is there when a byte is wrong."""
    log = next(path for path in of_topic(data_folder, "dumped-") if path.suffix == ".log" and path.stat().st_size)
    damaged = bytearray(log.read_bytes())
    damaged[at] ^= 0xFF
    (tmp_path / log.name).write_bytes(damaged)
    assert complaints(dump([tmp_path / log.name], "--deep-iteration")) != []


def test_a_hole_in_a_segment_would_be_noticed(data_folder: Path, tmp_path: Path) -> None:
    """And a segment is not taken for one because it begins where the one before it ended."""
    log = next(path for path in of_topic(data_folder, "dumped-0") if path.suffix == ".log")
    data = log.read_bytes()
    places = [(at, header.base_offset) for at, header in headers_in(data)]
    assert len(places) > 3
    (second, base), (third, _) = places[1], places[2]
    later = tmp_path / f"{base:020}.log"
    later.write_bytes(data[second:])
    assert complaints(dump([later], "--deep-iteration")) == []
    log = tmp_path / log.name
    log.write_bytes(data[:second] + data[third:])
    assert complaints(dump([log], "--deep-iteration")) == [f"Non-consecutive offsets in {log}"]
