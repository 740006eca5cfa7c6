"""What holds for all tests: no property fails because a machine was slow; brokers end with the test that made them."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tallystick.process import BrokerProcess
from tests.harness.broker import EXTERNAL, server

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Who runs in the background of a shell ignores it, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

OF_OTHERS = ("clients", "conformance", "console", "distributions", "programs", "server", "shared_store", "spark")
"""Where clients and programs that are not ours keep time by the clock, on a machine that others use, too."""
REPEATS = int(os.environ.get("TALLYSTICK_TEST_REPEATS", "0"))
"""How often a test of those folders that failed is tried again (decision 0048)."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items if REPEATS else ():
        if item.path.relative_to(here).parts[0] in OF_OTHERS:
            item.add_marker(pytest.mark.flaky(reruns=REPEATS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What failed before it passed is shown as whole as what failed."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.write_sep("_", f"failed, and was tried again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Makes brokers for this test alone; they are gone when it ends."""
    if EXTERNAL:
        pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
    made: list[BrokerProcess] = []

    def make(**options: object) -> BrokerProcess:
        made.append(server(tmp_path / f"broker-{len(made)}", **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for process in made:
        process.close()
