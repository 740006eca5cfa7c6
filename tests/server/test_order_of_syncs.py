"""A server at work, as the kernel sees it: what an answer promises is on the disk before the answer leaves."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.topics import DeleteTopicsRequest
from protocol.records.record import NewRecord, build_batch
from storage.checkpoints import LOG_START_OFFSETS, PARTITION_METADATA
from tallystick import Broker
from tests.server.wire import Wire, make_topic, produce

CALLS = "pwritev,pwritev2,pwrite64,write,writev,sendto,sendmsg,fdatasync,fsync,rename,renameat,renameat2"
BEGUN = re.compile(r"(\d+) +(\w+)\((.*)")
RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>")

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="macOS has no strace"),
    pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace"),
]


@contextmanager
def watched(broker: Broker, trace: Path) -> Iterator[None]:
    """Every call of the server, from now on until the end of the block, goes into the file."""
    strace = subprocess.Popen(
        ["strace", "-f", "-yy", "-o", str(trace), "-e", f"trace={CALLS}", "-p", str(broker.pid)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert strace.stderr is not None
    said = strace.stderr.readline()
    if "attached" not in said:
        strace.wait()
        pytest.skip(f"strace may not look at processes here: {said.strip()}")
    try:
        yield
    finally:
        strace.send_signal(signal.SIGINT)
        strace.communicate()


def calls_in(trace: Path) -> list[str]:
    """`begin CALL FILE` and `end CALL FILE` in order, with the last part of its path; `answer` where bytes are about
    to leave for the client. A rename bears the name that the file gets."""
    calls, under_way = [], {}
    for line in trace.read_text(errors="replace").splitlines():
        if (resumed := RESUMED.match(line)) is not None:
            calls.append(f"end {under_way.pop(resumed[1])}")
        elif (begun := BEGUN.match(line)) is not None:
            thread, name, rest = begun.groups()
            if "<TCP" in rest.partition(",")[0]:
                calls.append("answer")
                what = "answer"
            else:
                path = rest.split('"')[3] if name.startswith("rename") else rest[rest.find("<") + 1 : rest.find(">")]
                kind = "write" if "write" in name else "rename" if "rename" in name else name
                what = f"{kind} {Path(path).name}"
                calls.append(f"begin {what}")
            if line.endswith("<unfinished ...>"):
                under_way[thread] = what
            else:
                calls.append(f"end {what}")
    return calls


def of_files(calls: list[str], *names: str) -> list[str]:
    """Those that concern these files, and the answers."""
    return [call for call in calls if call == "answer" or call.rpartition(" ")[2] in names]


def test_a_record_is_synced_between_its_write_and_its_answer(tmp_path: Path) -> None:
    records = bytes(build_batch([NewRecord(key=None, value=b"v", timestamp_ms=1)]))
    with Broker(durability="fsync") as broker:
        make_topic(broker, "t")
        with Wire(broker) as wire:
            wire.ask(produce("t", records), 9)  # the first record of a log has more to sync: names
            with watched(broker, tmp_path / "trace"):
                for _ in range(3):
                    answer = wire.ask(produce("t", records), 9)
                    assert answer.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
    log = "00000000000000000000.log"
    each = [f"{moment} {call} {log}" for call in ("write", "fdatasync") for moment in ("begin", "end")]
    assert of_files(calls_in(tmp_path / "trace"), log) == [*each, "answer"] * 3


def test_the_first_record_has_its_names_synced_too(tmp_path: Path) -> None:
    """The log's file, the folder it is in, and whose that is (`partition.metadata`)."""
    records = bytes(build_batch([NewRecord(key=None, value=b"v", timestamp_ms=1)]))
    with Broker(durability="fsync") as broker:
        make_topic(broker, "t")
        folder = broker.process.data.resolve().name
        with Wire(broker) as wire, watched(broker, tmp_path / "trace"):
            answer = wire.ask(produce("t", records), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
    calls = calls_in(tmp_path / "trace")
    written = calls.index("end write 00000000000000000000.log")
    synced = {call for call in calls[written : calls.index("answer", written)] if call.startswith("end f")}
    assert synced >= {
        "end fdatasync 00000000000000000000.log",
        f"end fdatasync {PARTITION_METADATA}",
        "end fsync t-0",
        f"end fsync {folder}",
    }


def test_a_topic_is_deleted_on_the_disk_before_the_response(tmp_path: Path) -> None:
    """And its folder is set aside after the record of it is there: a start finds no folder without its topic gone."""
    with Broker(durability="fsync") as broker:
        make_topic(broker, "t")
        with Wire(broker) as wire, watched(broker, tmp_path / "trace"):
            answer = wire.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
            assert answer.responses[0].error_code == 0  # type: ignore[attr-defined]
    calls = calls_in(tmp_path / "trace")
    (renamed,) = [call for call in calls if call.startswith("begin rename t-0.") and call.endswith("-delete")]
    log = "00000000000000000000.log"
    found = of_files(calls, log)
    assert found[: found.index("answer")] == [
        f"{moment} {call} {log}" for call in ("write", "fdatasync") for moment in ("begin", "end")
    ]
    assert calls.index(f"end fdatasync {log}") < calls.index(renamed)


def test_a_file_and_its_name_are_synced_before_the_response(tmp_path: Path) -> None:
    records = bytes(build_batch([NewRecord(key=None, value=b"v", timestamp_ms=1)]))
    deletion = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    with Broker(durability="fsync") as broker:
        make_topic(broker, "t")
        folder = broker.process.data.resolve().name
        with Wire(broker) as wire:
            wire.ask(produce("t", records), 9)
            with watched(broker, tmp_path / "trace"):
                answer = wire.ask(DeleteRecordsRequest(topics=[deletion], timeout_ms=10_000), 1)
                assert answer.topics[0].partitions[0].error_code == 0  # type: ignore[attr-defined]
    temporary = f"{LOG_START_OFFSETS}.tmp"
    calls = of_files(calls_in(tmp_path / "trace"), temporary, LOG_START_OFFSETS, folder)
    calls = calls[: calls.index("answer") + 1]
    begun = [index for index, call in enumerate(calls) if call == f"begin write {temporary}"]
    calls = calls[begun[-1] :]  # a checkpoint of the broker's own accord may have come before
    steps = (f"write {temporary}", f"fdatasync {temporary}", f"rename {LOG_START_OFFSETS}", f"fsync {folder}")
    assert calls == [*(f"{moment} {step}" for step in steps for moment in ("begin", "end")), "answer"]
