"""pytest: a broker for each test, ready in a moment, that can be broken on purpose.

    def test_it(tallystick):
        producer = confluent_kafka.Producer({"bootstrap.servers": tallystick.bootstrap})

`tallystick` is one broker for the whole session (of a worker, under pytest-xdist), wiped after each test: no topic, no
group, no fault is left, and it runs. `@pytest.mark.tallystick(durability="fsync", set={"num.partitions": 3})` asks for
another one, which tests that want the same share. `tallystick_session` is never wiped, `tallystick_factory(...)` makes
brokers that are a test's own. With a test that fails come the broker's log, the transactions that are open, and what
happened to them.

Nothing of the broker is imported into the tests' process.
"""

import subprocess
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from tallystick.child_broker import Broker, BrokerFailed
from tallystick.control import NotDone

Options = Mapping[str, Any]
_DURABILITY = "page-cache"
_LOG_BYTES = 8000
_SECONDS = 15
_SILENT = "the broker does not answer"
_MOST_TIMELINES = 3
_MARK = "tallystick(durability='page-cache', set={}, tls=False, nodes=1): the broker that the fixture `tallystick` is"
_WISHES = ("durability", "set", "tls", "nodes", "in_memory", "http", "start_seconds")
"""What a marker may ask for. A folder and a port are one broker's; brokers of markers are shared."""
_DURABILITIES = ("page-cache", "fsync")
_MOST_NODES = 16
_BROKERS = pytest.StashKey["_Brokers"]()
_USED = pytest.StashKey[Broker]()


class _Brokers:
    """Those of one process, by what was asked for; begun when they are wanted first."""

    def __init__(self) -> None:
        self._begun: dict[str, Broker] = {}

    def like(self, options: Options) -> Broker:
        """One that runs. A test may have killed, stopped or closed it, or left it so that it does not start."""
        key = repr(sorted(options.items()))
        known = self._begun.get(key)
        if known is not None and not known.process.running:
            try:
                known.start().wipe()
            except (BrokerFailed, NotDone) as problem:
                warnings.warn(pytest.PytestWarning(f"another broker takes its place: {problem}"), stacklevel=2)
                _throw_away(self._begun.pop(key))
                known = None
        if known is None:
            known = self._begun[key] = made(**options)
            known.start()
        return known

    def close(self) -> None:
        with ExitStack() as closing:
            for broker in self._begun.values():
                closing.callback(broker.close)
            self._begun.clear()


def _wanted(mark: pytest.Mark | None) -> Options:
    """What a marker asks for, so that equal wishes look equal. Fails the test where nobody can have that."""
    asked: dict[str, Any] = {"durability": _DURABILITY, "set": {}, **(mark.kwargs if mark is not None else {})}
    settings = asked["set"] or {}
    wrong = ""
    if mark is not None and mark.args:
        wrong = f"takes its options by name, as in durability='fsync', and not {mark.args[0]!r}"
    elif asked.get("nodes", 1) not in range(1, _MOST_NODES + 1):
        wrong = f"has no {asked['nodes']!r} nodes; there are 1 to {_MOST_NODES}"
    elif unknown := sorted(asked.keys() - {*_WISHES}):
        wrong = f"has no option {unknown[0]!r}; there are {', '.join(_WISHES)}"
    elif asked["durability"] not in _DURABILITIES:
        wrong = f"has no durability {asked['durability']!r}; there are {' and '.join(_DURABILITIES)}"
    elif not isinstance(settings, Mapping):
        wrong = f"takes settings as set={{'num.partitions': 3}}, and not {settings!r}"
    if wrong:
        pytest.fail(f"@pytest.mark.tallystick {wrong}", pytrace=False)
    if asked.get("nodes") == 1:
        del asked["nodes"]
    return {**asked, "set": {key: str(value) for key, value in sorted(settings.items())}}


def made(*, durability: str = _DURABILITY, set: Mapping[str, object] | None = None, **others: Any) -> Broker:  # noqa: A002
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
    options = _wanted(request.node.get_closest_marker("tallystick"))
    try:
        broker = request.config.stash[_BROKERS].like(options)
    except (BrokerFailed, NotDone) as problem:
        pytest.fail(f"the broker of the fixture `tallystick` does not start: {problem}", pytrace=False)
    request.node.stash[_USED] = broker
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
    with ExitStack() as closing:
        for broker in begun:
            closing.callback(broker.close)


def _put_right(broker: Broker) -> None:
    """What a test left behind goes. A clock that was moved would make the next test's records old, and goes back with
    a start; a broker that does not answer is thrown away with its data."""
    try:
        broker.forget_copies()
    except BrokerFailed as problem:
        warnings.warn(pytest.PytestWarning(f"a fork was killed: {problem}"), stacklevel=2)
    if not broker.process.running:
        return
    try:
        broker.thaw()
        broker.clear_faults()
        if broker.nodes > 1:
            broker.start_nodes()
        broker.wipe()
        if broker.is_ahead:
            broker.stop()
    except (NotDone, BrokerFailed):
        _throw_away(broker)


def _throw_away(broker: Broker) -> None:
    broker.kill()
    broker.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Whatever brokers a test used say something when it fails."""
    report = yield
    if report.when in ("setup", "call") and report.failed:
        # Of a fixture that failed the arguments are not among the test's yet.
        values = [*getattr(item, "funcargs", {}).values(), item.stash.get(_USED, None)]
        asked = dict.fromkeys(value for value in values if isinstance(value, Broker))
        brokers = dict.fromkeys(one for broker in asked for one in (broker, *broker.forks))
        for number, broker in enumerate(brokers):
            name = "tallystick" if number == 0 else f"tallystick {number + 1}"
            report.sections.append((f"{name}: log", broker.process.log_end(_LOG_BYTES)))
            stuck = _open_transactions(broker)
            report.sections.append((f"{name}: open transactions", stuck))
            if stuck != _SILENT:
                report.sections += [(f"{name}: timeline of {one}", lines) for one, lines in _timelines(broker)]
    return report


def _open_transactions(broker: Broker) -> str:
    """As `tallystick explain stuck` has it, with what it would tell if the broker had an HTTP side."""
    from tallystick.journals.sentences import WHOSE

    if not broker.process.running:
        return "the broker does not run"
    command = broker.command("explain", "stuck")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return _SILENT
    said = done.stdout + done.stderr
    return said.replace(f"{WHOSE}\n", "".join(_holders(broker))) if WHOSE in said else said


def _holders(broker: Broker) -> Iterator[str]:
    """A line for each client that holds a transaction open."""
    from tallystick.journals.sentences import name_of
    from tallystick.written import printable

    try:
        for one in broker.open_transactions():
            if one["client"] is not None:
                held_by = f"{one['transactionalId']!r} is held by {name_of(one['client'])}."
                yield printable(held_by) + "\n"
    except NotDone as problem:
        yield f"{problem}\n"


def _timelines(broker: Broker) -> Iterator[tuple[str, str]]:
    """What happened to the transactional ids whose transactions are open, the oldest first."""
    from tallystick.journals.sentences import timeline_lines
    from tallystick.written import printable

    if not broker.process.running:
        return
    try:
        for one in broker.open_transactions()[:_MOST_TIMELINES]:
            transactional_id = one["transactionalId"]
            lines = [printable(line) for _, line in timeline_lines(broker.timeline(transactional_id))]
            yield printable(transactional_id), "\n".join(lines)
    except NotDone as problem:
        yield "none", str(problem)
