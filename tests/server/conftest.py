"""One server process for the stories of bad input; a test that harms it fails here, for all share it."""

from collections.abc import Iterator

import pytest

from tallystick import Broker

SETTINGS = {"num.partitions": 2, "socket.request.max.bytes": 4 << 20, "group.min.session.timeout.ms": 100}


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(durability="page-cache", config=SETTINGS) as running:
        yield running
        assert running.process.running, running.process.log_end()
        assert "Traceback" not in running.process.log.read_text()
