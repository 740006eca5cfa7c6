"""The compose files with a real engine: a broker and a Spark job beside it, both killed, and not a record missing or
doubled.

Debian's docker-compose knows no name at the head of a file: it is told apart. It speaks to Docker's API.
"""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.conftest import FOLDER, Engine
from tests.harness.confluent import read_all, values_of, wait_until, write
from tests.harness.proxy import free_port

ROOT = Path(__file__).resolve().parents[2]
JOB = "tallystick-spark-job"
PATIENCE_S = 300.0
NAME = re.compile(r"^name: .*\n", re.MULTILINE)


class Compose:
    """One file of docker/, as a project of its own with a port of its own."""

    def __init__(self, engine: Engine, file: str, folder: Path) -> None:
        self._engine = engine
        self.port = free_port()
        self._project = f"tried{self.port}"
        written = folder / "docker" / file
        written.parent.mkdir()
        written.write_text(NAME.sub("", (ROOT / "docker" / file).read_text()))
        self._command = ["docker-compose", "--project-name", self._project, "--file", str(written)]
        self._environment = {
            **os.environ,
            "DOCKER_HOST": engine.address,
            "TALLYSTICK_PORT": str(self.port),
            # An engine that copies images whole, as podman does here, deletes a gigabyte of files in its own time.
            "COMPOSE_HTTP_TIMEOUT": str(int(PATIENCE_S)),
        }

    def __call__(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def up(self) -> None:
        """All of it, in the order of the file; nothing is built."""
        with subprocess.Popen([*self._command, "up", "--detach", "--no-build"], env=self._environment) as process:
            try:
                wait_until(lambda: self._look(process), "all services", seconds=PATIENCE_S)
            finally:
                process.kill()
        assert process.returncode == 0, self("logs")

    def _look(self, process: "subprocess.Popen[bytes]") -> bool:
        """Nobody but an engine with timers asks for its health: podman is told to, where it has none."""
        if self._engine.podman is not None and self._listens():
            self._engine.podman.look_after(f"{self._project}_broker_1")
        return process.poll() is not None

    def _listens(self) -> bool:
        """Before that, a look or two would make it a container that is not well."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def wait_for(self, bootstrap: str, invoices: int) -> None:
        """Says what the job said, where they do not come."""
        try:
            wait_until(lambda: len(read_all(bootstrap, "invoices")) >= invoices, "all invoices", seconds=PATIENCE_S)
        except AssertionError as failure:
            failure.add_note(self("logs", "--no-color", "--tail", "60", "spark"))
            raise

    def down(self) -> None:
        self("rm", "--force", "--stop", "-v")  # one that is started again and again does not hold up the network
        self("down", "--volumes", "--timeout", "20")


@pytest.fixture
def compose(engine: Engine, tmp_path: Path) -> Iterator[Compose]:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed (apt-get install docker-compose)")
    if engine.podman is not None and not engine.podman("images", "--quiet", JOB):
        pytest.skip("there is no image of the job: `make image-spark` builds one")
    made = Compose(engine, "compose.spark.yml", tmp_path)
    try:
        yield made
    finally:
        made.down()


def test_every_order_becomes_one_invoice_through_kills(compose: Compose) -> None:
    compose.up()
    bootstrap = f"localhost:{compose.port}"
    expected: list[bytes] = []
    for number, killed in enumerate(("spark", "broker", None)):
        orders = [b"order %d of %d" % (one, number) for one in range(200)]
        write(bootstrap, "orders", orders)
        expected += [one.upper() for one in orders]
        if killed is not None:
            compose.wait_for(bootstrap, len(expected) - len(orders) + 1)  # it is at work
            compose("kill", "-s", "KILL", killed)
            compose("start", killed)
    compose.wait_for(bootstrap, len(expected))
    assert sorted(values_of(read_all(bootstrap, "invoices"))) == sorted(expected)
    compose("stop", "--timeout", "60", "spark")
    assert sorted(values_of(read_all(bootstrap, "invoices"))) == sorted(expected)


@pytest.mark.skipif(not FOLDER, reason="`make test-containers` asks for it")
def test_the_files_are_read(tmp_path: Path) -> None:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed (apt-get install docker-compose)")
    for file in sorted((ROOT / "docker").glob("compose*.yml")):
        written = tmp_path / file.name
        written.write_text(NAME.sub("", file.read_text()))
        done = subprocess.run(
            ["docker-compose", "--file", str(written), "config", "--quiet"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{file.name}: {done.stderr}"
