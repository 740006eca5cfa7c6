"""One server process for the stories of bad input; a test that harms it fails here, for all share it.

Three nodes in one process for the stories of one file; they are healed after each test.
"""

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


@pytest.fixture(scope="module")
def nodes_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(folder=tmp_path_factory.mktemp("several"), nodes=3, control=True) as running:
        yield running


@pytest.fixture
def nodes(nodes_of_module: Broker) -> Iterator[Broker]:
    """Three of them, all alive, with nothing in them."""
    yield nodes_of_module
    nodes_of_module.clear_faults()
    nodes_of_module.start_nodes()
    nodes_of_module.wipe()
