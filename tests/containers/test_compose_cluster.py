"""docker/compose.cluster-s3.yml with a real engine, where the images that it names are there: three nodes find a
database, a bucket and one another by their names, one is killed and comes back, and what was committed is in the
bucket.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.containers.compose import PATIENCE_S, ROOT, Compose
from tests.containers.conftest import Engine
from tests.harness.confluent import make_topic, producer, read_all, values_of, wait_until
from tests.harness.proxy import free_port

FILE = "compose.cluster-s3.yml"
SECONDS = 60.0
NAMES = "aardvark-dns"
PODMAN_LOOKS_IN = ("/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman")
PRINTED = "find /data/tallystick -type f -exec cat {} + | tr -cd '[:print:]'"


@pytest.fixture
def ports() -> list[int]:
    return [free_port() for _ in range(3)]


@pytest.fixture
def compose(engine: Engine, ports: list[int], tmp_path: Path) -> Iterator[Compose]:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed (apt-get install docker-compose)")
    if engine.podman is not None and not any(Path(folder, NAMES).exists() for folder in PODMAN_LOOKS_IN):
        pytest.skip(f"podman gives its containers no names without {NAMES} (apt-get install netavark {NAMES})")
    services = yaml.safe_load((ROOT / "docker" / FILE).read_text())["services"]
    images = {service["image"] for service in services.values()}
    if engine.podman is not None and (missing := [one for one in images if not engine.podman("images", "-q", one)]):
        pytest.skip(f"there is no image {sorted(missing)}")
    replaced = {f"127.0.0.1:{9092 + number}:": f"127.0.0.1:{port}:" for number, port in enumerate(ports)}
    replaced |= {f"//localhost:{9092 + number},": f"//localhost:{port}," for number, port in enumerate(ports)}
    made = Compose(engine, FILE, tmp_path, ["postgresql", "s3"], replaced)
    try:
        yield made
    finally:
        made.down()


def commit(bootstrap: str, value: bytes) -> None:
    sender = producer(bootstrap, transactional__id="copier")
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    for partition in range(3):
        sender.produce("orders", value, partition=partition)
    sender.commit_transaction(SECONDS)


class Seen:
    """Of the cluster, by a client."""

    def __init__(self, compose: Compose, bootstrap: str) -> None:
        self._compose = compose
        self._asked = AdminClient({"bootstrap.servers": bootstrap})

    def wait_until_there_are_three(self) -> None:
        """Says what the nodes said, where there are not."""
        try:
            wait_until(lambda: self._nodes() == [1, 2, 3], "three nodes", seconds=PATIENCE_S)
        except AssertionError as failure:
            failure.add_note(self._compose("logs", "--no-color", "--tail", "40"))
            raise

    def _nodes(self) -> list[int]:
        try:
            return sorted(self._asked.list_topics(timeout=SECONDS).brokers)
        except KafkaException:  # None of them serves yet.
            return []


def test_three_nodes_over_a_bucket_go_through_a_kill(compose: Compose, ports: list[int]) -> None:
    compose.up()
    bootstrap = ",".join(f"localhost:{port}" for port in ports)
    seen = Seen(compose, bootstrap)
    seen.wait_until_there_are_three()
    make_topic(bootstrap, "orders", 3)
    commit(bootstrap, b"before it was killed")
    compose("kill", "-s", "KILL", "node2")
    commit(bootstrap, b"while it was away")
    compose("start", "node2")
    seen.wait_until_there_are_three()
    written = [b"before it was killed", b"while it was away"]
    assert sorted(values_of(read_all(bootstrap, "orders"))) == sorted(written * 3)
    kept = compose("exec", "-T", "s3", "sh", "-c", PRINTED)
    assert [value for value in written if value.decode() not in kept] == []
    compose("stop", "--timeout", "60")
