"""When these are asked, a broker for each test, and processes that end with it.

They run with `make conformance`. `TALLYSTICK_TEST_BROKER=apache-kafka` puts a real Apache Kafka in our place, which
proves that the programs are right.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.harness import jars
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.broker import TEST_SETTINGS
from tests.programs.java_program import JavaPrograms

WHOLE = os.environ.get("TALLYSTICK_CONFORMANCE", "") == "whole"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(1200))
            if not WHOLE:
                item.add_marker(pytest.mark.skip(reason="a program of Kafka's world: `make conformance` runs it"))


@pytest.fixture
def broker(own_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return own_broker().start()


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[BrokerProcess]:
    """An Apache Kafka beside ours."""
    try:
        made = ApacheKafka(tmp_path / "theirs", heap="512m", settings=TEST_SETTINGS)
    except jars.JarsMissing as reason:
        pytest.skip(f"Kafka's tools are told to an Apache Kafka, too: {reason}")
    yield made.start()
    made.close()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[JavaPrograms]:
    made = JavaPrograms(tmp_path)
    yield made
    made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    """What the programs and the broker said goes with a failure."""
    report: pytest.TestReport = yield  # type: ignore[misc]
    if report.when == "call" and report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, BrokerProcess):
                report.sections.append((name, value.log_end()))
            elif isinstance(value, JavaPrograms):
                report.sections += [(one.label, one.log_end()) for one in value.started]
    return report
