"""pytest: a broker for each test, ready in a moment, that can be broken on purpose.

    def test_it(tallystick):
        producer = confluent_kafka.Producer({"bootstrap.servers": tallystick.bootstrap})

`tallystick` is one broker for the whole session (of a worker, under pytest-xdist), wiped after each test: no topic, no
group, no fault is left, and it runs. `@pytest.mark.tallystick(durability="fsync", set={"num.partitions": 3})` asks for
another one, which tests that want the same share. `tallystick_session` is never wiped, `tallystick_factory(...)` makes
brokers that are a test's own. With a test that fails come the broker's log and the transactions that are open.

Nothing of the broker is imported into the tests' process.
"""

import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tallystick.child_broker import Broker
from tallystick.control import NotDone

Options = Mapping[str, Any]
_LOG_BYTES = 8000
_SECONDS = 15
_MARK = "tallystick(durability='page-cache', set={}): the broker that the fixture `tallystick` is"
_BROKERS = pytest.StashKey["_Brokers"]()


class _Brokers:
    """Those of one process, by what was asked for; begun when they are wanted first."""

    def __init__(self) -> None:
        self._begun: dict[str, Broker] = {}

    def like(self, options: Options) -> Broker:
        """One that runs. A test may have killed, stopped or frozen it."""
        known = self._begun.get(repr(sorted(options.items())))
        if known is None:
            known = self._begun[repr(sorted(options.items()))] = made(**options)
        if not known.process.running:
            known.start()
            known.wipe()
        return known

    def close(self) -> None:
        for broker in self._begun.values():
            broker.close()
        self._begun.clear()


def made(*, durability: str = "page-cache", set: Mapping[str, object] | None = None, **others: Any) -> Broker:  # noqa: A002
    """A broker that can be broken, not started. Its answers do not wait for the disk unless `durability` is `fsync`."""
    return Broker(durability=durability, config=set, control=True, **others)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    config.stash[_BROKERS] = _Brokers()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _BROKERS in config.stash:
        config.stash[_BROKERS].close()


@pytest.fixture
def tallystick(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that runs and has neither topics nor groups; see the marker `tallystick`."""
    mark = request.node.get_closest_marker("tallystick")
    broker = request.config.stash[_BROKERS].like({} if mark is None else mark.kwargs)
    yield broker
    _put_right(broker)


@pytest.fixture(scope="session")
def tallystick_session(tallystick_factory: Callable[..., Broker]) -> Broker:
    """One broker for the whole session, which nothing is taken from between tests."""
    return tallystick_factory()


@pytest.fixture(scope="session")
def tallystick_factory() -> Iterator[Callable[..., Broker]]:
    """Makes brokers that run until the session ends, each with its own data: `durability`, `set`, `folder`, `port`."""
    begun: list[Broker] = []

    def make(**options: Any) -> Broker:
        begun.append(made(**options))
        return begun[-1].start()

    yield make
    for broker in begun:
        broker.close()


def _put_right(broker: Broker) -> None:
    """What a test left behind goes; a broker that does not answer is thrown away with its data."""
    if not broker.process.running:
        return
    try:
        broker.thaw()
        broker.clear_faults()
        broker.wipe()
    except NotDone:
        broker.kill()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Whatever brokers a test used say something when it fails."""
    report = yield
    if report.when == "call" and report.failed:
        values = getattr(item, "funcargs", {}).values()
        for number, broker in enumerate([value for value in values if isinstance(value, Broker)]):
            name = "tallystick" if number == 0 else f"tallystick {number + 1}"
            report.sections.append((f"{name}: log", broker.process.log_end(_LOG_BYTES)))
            report.sections.append((f"{name}: open transactions", _open_transactions(broker)))
    return report


def _open_transactions(broker: Broker) -> str:
    """As `tallystick explain stuck` has it."""
    if not broker.process.running:
        return "the broker does not run"
    command = [sys.executable, "-P", str(Path(__file__).with_name("__main__.py")), "explain", "stuck"]
    try:
        done = subprocess.run(  # noqa: S603 - our own command line
            [*command, "--bootstrap-server", broker.bootstrap],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the broker does not answer"
    return done.stdout + done.stderr
