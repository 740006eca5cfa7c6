"""Tests that pytest has collected once, for many defects: a fork of this process runs the few that are asked for at
once, where a pytest of its own would first spend seconds on finding them."""

import contextlib
import gc
import io
import sys
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, settings

_items: dict[str, list[pytest.Item]] = {}
"""Those of a test function, by its name: `tests/unit/x/test_y.py::test_z`."""


class First:
    """Which test failed first."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class _Collected:
    """In the place of pytest's loop over the tests."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._stdout = sys.stdout

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            _items.setdefault(item.nodeid.partition("[")[0], []).append(item)
        gc.collect()
        gc.freeze()  # a fork that collects garbage would copy all of it
        said, sys.stdout = sys.stdout, self._stdout
        try:
            self._then()
        finally:
            sys.stdout = said
            gc.unfreeze()
            _items.clear()
        return True


def only_one_failure_counts() -> None:
    """That a property fails is enough; the smallest example of it is not looked for."""
    settings.register_profile(
        "mutants",
        phases=(Phase.explicit, Phase.generate),
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("mutants")


def with_collected(folders: Sequence[str], seconds: float, then: Callable[[], None]) -> None:
    """Collect the tests in `folders`, each of which may take so many seconds, and do `then` while they are at hand."""
    arguments = ["-q", "-s", "--tb=no", "-p", "no:xdist", "--hypothesis-seed=0", f"--timeout={seconds}", *folders]
    plugin = _Collected(then)
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main(arguments, plugins=[plugin])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(f"the tests could not be collected: pytest says {status}")


def are_collected(tests: Sequence[str]) -> bool:
    return all(test in _items for test in tests)


def first_that_fails(tests: Sequence[str]) -> str:
    """Run these, in this process, until one fails: its name, or "" where all pass."""
    only_one_failure_counts()
    first = First()
    items = [item for test in tests for item in _items[test]]
    items[0].config.pluginmanager.register(first)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if first.failed:
            break
    return first.failed
