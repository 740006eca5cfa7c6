"""A broker with something on it, and a console of it: one of each for all tests of pages."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.console.stage import Staged, staged
from tests.console.visitor import Visitor, address_in
from tests.harness.broker import EXTERNAL, server


@dataclass(frozen=True, slots=True)
class Shown:
    """A console and what it shows."""

    address: str
    bootstrap: str
    stage: Staged

    def visitor(self) -> Visitor:
        return Visitor(self.address)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share a broker: one worker has it."""
    for item in items:
        if "tests/console/" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("console"))


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with showing(tmp_path_factory.mktemp("console")) as made:
        yield made


@contextmanager
def showing(folder: Path, *, over_http: bool = False) -> Iterator[Shown]:
    """As long as the block lasts. `over_http`: with what only our broker tells."""
    if EXTERNAL:
        pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
    broker, ready = server(folder), folder / "console"
    broker.has_http = over_http
    console: subprocess.Popen[bytes] | None = None
    try:
        bootstrap = broker.start().bootstrap
        stage = staged(bootstrap)
        command = [sys.executable, "-m", "tallystick", "console", "--bootstrap-server", bootstrap, "--port", "0"]
        if over_http:
            command += ["--http", broker.http_url]
        console = subprocess.Popen([*command, "--ready-file", str(ready), "--end-with-stdin"], stdin=subprocess.PIPE)
        yield Shown(address_in(ready), bootstrap, stage)
    finally:
        if console is not None:
            console.communicate(timeout=30)
        broker.close()
