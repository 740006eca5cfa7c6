"""One Spark session and one broker for all Spark tests of a run; what must kill its broker brings its own.

Without PySpark, Java or the jars every test here is skipped with a sentence that says what to do.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.process import BrokerProcess
from tests.harness.broker import EXTERNAL, Target, server, story_name
from tests.spark.session import NotHere, needed, new_session, register_everything

WHOLE = os.environ.get("TALLYSTICK_SPARK", "") == "whole"
"""`make test` runs a short form; `TALLYSTICK_SPARK=whole` runs every case."""


OPTIONAL = frozenset({"pyspark", "py4j", "pyarrow", "numpy", "pandas", "fastavro", "google"})
"""What is installed with PySpark, and so only where Java is."""


class SparkModule(pytest.Module):
    """A file of tests that is skipped where it cannot be imported for want of PySpark."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            cause = error.__cause__
            if isinstance(cause, ModuleNotFoundError) and (cause.name or "").partition(".")[0] in OPTIONAL:
                pytest.skip(f"needs PySpark, which is installed where Java is: {cause}", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> SparkModule:
    return SparkModule.from_parent(parent, path=module_path)  # type: ignore[no-any-return]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            own_drivers = item.path.stem == "test_pipelines"
            # One worker, one session, one JVM; what brings drivers of its own may run beside it.
            item.add_marker(pytest.mark.xdist_group("spark-drivers" if own_drivers else "spark"))
            item.add_marker(pytest.mark.timeout(1200))  # Against a hang; a loaded box is no failure.
            if item.get_closest_marker("whole") and not WHOLE:
                item.add_marker(pytest.mark.skip(reason="a long case: TALLYSTICK_SPARK=whole runs it"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: a case that only TALLYSTICK_SPARK=whole runs")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session that all tests share."""
    try:
        needed()
    except NotHere as reason:
        pytest.skip(str(reason))
    session = new_session(tmp_path_factory.mktemp("spark"))
    register_everything(session)
    yield session
    session.stop()


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
def bootstrap(spark: Any, target: Target) -> str:
    return target.bootstrap


@pytest.fixture
def own_broker(spark: Any, tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Makes brokers for this test alone; they are gone when it ends."""
    if EXTERNAL:
        pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
    made: list[BrokerProcess] = []

    def make(**options: Any) -> BrokerProcess:
        made.append(server(tmp_path / f"broker-{len(made)}", **options))
        return made[-1]

    yield make
    for process in made:
        process.close()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


_numbers = itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A fresh name for the topics of this test."""
    return f"{story_name(request.node.name)[:80]}-{next(_numbers)}"
