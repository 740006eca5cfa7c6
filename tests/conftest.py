"""What holds for all tests: no property fails because a machine was slow; brokers end with the test that made them."""

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
