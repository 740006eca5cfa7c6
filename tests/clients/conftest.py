"""One broker for all client tests of a session; what must kill or cut its broker brings its own."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.harness.broker import EXTERNAL, Target, server, story_name

ON_ONE_WORKER = "clients"
"""All of these tests run on one xdist worker: they share a broker, and the last one reads its files."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    for item in mine:
        own_broker = item.path.stem in ("test_kill_recovery", "test_cut_connections", "test_kafka_tools")
        item.add_marker(pytest.mark.xdist_group("kills" if own_broker else ON_ONE_WORKER))
    items.sort(key=lambda item: item.path.stem == "test_dump_log_segments")


def show_log(process: BrokerProcess) -> None:
    print(f"--- {process.log}, its end ---\n{process.log_end()}", file=sys.stderr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """The broker's log goes with a failure."""
    report = yield
    if report.when == "call" and report.failed:
        for process in _processes(item):
            report.sections.append(("broker log", process.log_end()))
    return report


def _processes(item: pytest.Item) -> list[BrokerProcess]:
    fixtures = getattr(item, "funcargs", {}).values()
    found = [value.process if isinstance(value, Target) else value for value in fixtures]
    return [value for value in found if isinstance(value, BrokerProcess)]


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The broker shared by the session."""
    if EXTERNAL:
        yield Target(EXTERNAL, None)
        return
    process = server(tmp_path_factory.mktemp("broker"))
    try:
        yield Target(process.start().bootstrap, process)
    finally:
        process.close()


@pytest.fixture
def bootstrap(target: Target) -> str:
    return target.bootstrap


_numbers = itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A fresh name for topics, groups and transactional ids of this test."""
    return f"{story_name(request.node.name)}-{next(_numbers)}"
