"""The compose files with a real engine: a broker and a Spark job beside it, both killed, and not a record missing or
doubled.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.compose import NAME, PATIENCE_S, ROOT, Compose
from tests.containers.conftest import FOLDER, Engine
from tests.harness.confluent import read_all, values_of, wait_until, write

JOB = "tallystick-spark-job"


class WithSpark(Compose):
    """A broker, and a job beside it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__(engine, "compose.spark.yml", folder, ["broker"])

    def is_there(self, name: str) -> bool:
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


@pytest.fixture
def compose(engine: Engine, tmp_path: Path) -> Iterator[WithSpark]:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed (apt-get install docker-compose)")
    if engine.podman is not None and not engine.podman("images", "--quiet", JOB):
        pytest.skip("there is no image of the job: `make image-spark` builds one")
    made = WithSpark(engine, tmp_path)
    try:
        yield made
    finally:
        made.down()


def test_every_order_becomes_one_invoice_through_kills(compose: WithSpark) -> None:
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
