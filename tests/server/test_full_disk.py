"""A disk that takes no more: KAFKA_STORAGE_ERROR, an exit status, a sentence, and recovery."""

import resource
import subprocess
import time
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tallystick.startup_guard import server_command, server_environment
from tests.server.wire import Wire, make_topic, produce

LIMIT_BYTES = 1 << 20
"""The largest file the server may write, which stands for a full disk: the write fails just so."""


class Address:
    """What `Wire` wants of a broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def start_on_a_small_disk(folder: Path) -> "tuple[subprocess.Popen[bytes], str]":
    ready = folder / "ready"
    process = subprocess.Popen(
        server_command(["--port", "0", "--data-dir", str(folder / "data"), "--ready-file", str(ready)]),
        env=server_environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES)),
    )
    while not ready.exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.005)
    return process, ready.read_text().strip()


def test_a_full_disk_stops_the_broker_without_losing_acknowledged_records(tmp_path: Path) -> None:
    process, bootstrap = start_on_a_small_disk(tmp_path)
    batch = bytes(build_batch([NewRecord(key=None, value=bytes(100_000), timestamp_ms=1)]))
    acknowledged, refused = 0, ErrorCode.NONE
    address: Broker = Address(bootstrap)  # type: ignore[assignment]
    try:
        make_topic(address, "full")
        with Wire(address) as wire:
            while not refused:
                answer = wire.ask(produce("full", batch), 9)
                refused = ErrorCode(answer.responses[0].partition_responses[0].error_code)  # type: ignore[attr-defined]
                acknowledged += not refused
    finally:
        _, said = process.communicate(timeout=20)
    assert refused is ErrorCode.KAFKA_STORAGE_ERROR
    assert process.returncode == 1
    assert b"storage failed" in said
    assert 0 < acknowledged <= LIMIT_BYTES // 100_000
    with Broker(folder=tmp_path) as again, Wire(again) as wire:
        answer = wire.ask(produce("full", batch), 9)
        response = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        assert (response.error_code, response.base_offset) == (ErrorCode.NONE, acknowledged)
