"""A process that may not open many files: connections are refused before logs and syncs lack a descriptor."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from protocol.messages.metadata import ApiVersionsRequest
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tallystick.process import BrokerProcess
from tests.server.wire import SECONDS, Wire, make_topic, produce, still_serves

ALLOWED, SOCKETS, PARTITIONS = 200, 400, 60
RECORDS = bytes(build_batch([NewRecord(key=None, value=b"x", timestamp_ms=1)]))


class Limited(BrokerProcess):
    """A broker under `ulimit`."""

    limit = f"-n {ALLOWED}"

    def _command(self, ready: Path) -> list[str]:
        return ["sh", "-c", f'ulimit {self.limit} && exec "$@"', "sh", *super()._command(ready)]

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    @property
    def as_broker(self) -> Broker:
        return cast(Broker, self)  # `Wire` wants nothing of it but its address


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Limited]:
    running = Limited(tmp_path, options=["--set", f"num.partitions={PARTITIONS}"])
    try:
        yield running
    finally:
        running.close()


def write_everywhere(wire: Wire) -> None:
    for index in range(PARTITIONS):
        answer = wire.ask(produce("logs", RECORDS, index=index), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]


def connect(broker: Limited) -> socket.socket:
    host, _, port = broker.bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def test_idle_connections_take_no_descriptor_of_a_log(broker: Limited) -> None:
    broker.start()
    make_topic(broker.as_broker, "logs")
    served, wires = 0, []
    with Wire(broker.as_broker) as honest:
        write_everywhere(honest)
        try:
            for _ in range(SOCKETS):
                wires.append(Wire(broker.as_broker))
                try:
                    wires[-1].ask(ApiVersionsRequest(), 0)
                    served += 1
                except (AssertionError, ConnectionError):
                    continue
            assert 20 < served < ALLOWED
            write_everywhere(honest)
            assert broker.descriptors() < ALLOWED
        finally:
            for wire in wires:
                wire.socket.close()
        write_everywhere(honest)
    still_serves(broker.as_broker)
    assert broker.stop() == 0
    log = broker.log.read_text()
    assert "not have more descriptors" in log
    assert log.count("not have more descriptors") < 10
    assert "storage failed" not in log
    assert "Traceback" not in log


def test_a_rush_of_connections_does_not_end_the_broker(broker: Limited) -> None:
    """They are accepted in one turn of the loop, down to the last descriptor."""
    broker.start()
    make_topic(broker.as_broker, "logs")
    with Wire(broker.as_broker) as honest:
        write_everywhere(honest)
        broker.freeze()
        rush = [connect(broker) for _ in range(SOCKETS)]
        try:
            broker.thaw()
            write_everywhere(honest)
        finally:
            for one in rush:
                one.close()
        write_everywhere(honest)
    still_serves(broker.as_broker)
    assert broker.stop() == 0
    assert "storage failed" not in broker.log.read_text()


def test_the_soft_limit_is_raised_at_start(broker: Limited) -> None:
    broker.limit = "-S -n 100"
    broker.start()
    limits = Path(f"/proc/{broker.pid}/limits").read_text()
    (soft, hard) = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
    assert soft == hard or int(soft) == 1 << 20
