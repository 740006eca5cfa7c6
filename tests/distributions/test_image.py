"""The image that `make image` has built: started by its own command, driven by a client, stopped, started again.

buildah runs it in a chroot: on this machine's network, with its processes in sight. What of it is the image's own is
looked at here: variables, the user, the volume, the health check, the order at the end.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from distributions.image.buildah import Buildah
from tests.harness.confluent import admin, consumer, make_topic, producer
from tests.harness.image_runs import IMAGE, USER, VOLUME, Container
from tests.shared_store.objects.s3_server import BUCKET, Looking, S3Server, environment, started, why_not
from tests.shared_store.postgresql_server import PostgresqlServer

FOLDER = os.environ.get("TALLYSTICK_IMAGES")
SECONDS = 60.0
LARGEST_BYTES = 120_000_000

pytestmark = pytest.mark.skipif(FOLDER is None, reason="`make image` asks for it")


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Callable[..., Container]]:
    """Makes containers with a volume of their own."""
    made: list[Container] = []

    def make(**settings: str) -> Container:
        volume = tmp_path / "volume"
        volume.mkdir(exist_ok=True)
        os.chown(volume, USER, USER)
        made.append(Container(Buildah(Path(FOLDER or "").resolve()), volume, settings))
        return made[-1]

    # Users of other ids have to reach the volume.
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    yield make
    for one in made:
        one.remove()


@pytest.fixture
def s3() -> Iterator[S3Server]:
    server = started("versitygw" if why_not("versitygw") is None else "moto")
    yield server
    server.close()


def commit(bootstrap: str, topic: str, value: bytes) -> None:
    sender = producer(bootstrap, transactional__id="copier")
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    sender.produce(topic, value)
    sender.commit_transaction(SECONDS)


def values(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    reader = consumer(bootstrap, isolation__level="read_committed")
    reader.assign([TopicPartition(topic, 0, 0)])
    found = [reader.poll(SECONDS) for _ in range(count)]
    reader.close()
    return [one.value() for one in found if one is not None]


def test_what_an_engine_is_told() -> None:
    told = Buildah(Path(FOLDER or "").resolve()).configuration(IMAGE)
    assert (told["User"], told["StopSignal"]) == (f"{USER}:{USER}", "SIGTERM")
    assert list(told["Volumes"]) == [VOLUME]
    assert list(told["ExposedPorts"]) == ["9092/tcp"]
    assert told["Healthcheck"]["Retries"] == 3


def test_it_is_small_and_has_no_shell(container: Callable[..., Container]) -> None:
    root = container().root
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < LARGEST_BYTES
    programs = {path.name for path in files if path.stat().st_mode & 0o111 and path.parent.name in ("bin", "sbin")}
    assert programs & {"sh", "bash", "dash", "busybox", "apt", "dpkg", "pip", "pip3"} == set()
    assert [path for path in files if path.stat().st_mode & 0o6000] == []


def test_variables_volume_health_and_an_end_in_order(container: Callable[..., Container]) -> None:
    first = container(KAFKA_NUM_PARTITIONS="1", KAFKA_LOG_RETENTION_MS="86400000", CLUSTER_ID="4L6g3nShT-eMCtK--X86sw")
    with first.running() as running:
        assert running.broker().uids().real == USER
        asked = admin(first.bootstrap)
        broker = asked.describe_cluster().result(SECONDS)
        assert broker.cluster_id == "4L6g3nShT-eMCtK--X86sw"
        resource = ConfigResource(ResourceType.BROKER, str(broker.nodes[0].id))
        told = asked.describe_configs([resource])[resource].result(SECONDS)
        assert told["log.retention.ms"].value == "86400000"
        make_topic(first.bootstrap, "orders")
        commit(first.bootstrap, "orders", b"one")
        assert running.stop() == 0
    assert first.check_health() == 1
    assert (first.volume / ".kafka_cleanshutdown").exists()
    assert {path.stat().st_uid for path in first.volume.rglob("*")} == {USER}
    second = container()
    with second.running() as running:
        commit(second.bootstrap, "orders", b"two")
        assert values(second.bootstrap, "orders", 2) == [b"one", b"two"]
        running.broker().kill()
    third = container()
    with third.running():
        assert values(third.bootstrap, "orders", 2) == [b"one", b"two"]


def test_its_root_may_be_read_only(container: Callable[..., Container]) -> None:
    """And every capability taken away."""
    one = container()
    with one.running(read_only=True) as running:
        broker = running.broker()
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines())
        assert (int(status["CapEff"], 16), int(status["CapPrm"], 16), status["NoNewPrivs"]) == (0, 0, "1")
        mounts = [line.split() for line in Path(f"/proc/{broker.pid}/mounts").read_text().splitlines()]
        assert any(mount[1] == "/" and mount[3].startswith("ro") for mount in mounts)
        make_topic(one.bootstrap, "orders")
        commit(one.bootstrap, "orders", b"one")
        assert values(one.bootstrap, "orders", 1) == [b"one"]
        running.stop()
    assert (one.volume / ".kafka_cleanshutdown").exists()


def test_a_setting_that_cannot_be_ends_it_with_a_sentence(container: Callable[..., Container]) -> None:
    one = container(KAFKA_LOG_RETENTION_MS="tomorrow")
    with pytest.raises(AssertionError, match=r"log\.retention\.ms"), one.running():
        pass


def test_it_serves_over_a_database_and_keeps_nothing(
    container: Callable[..., Container], postgresql: PostgresqlServer
) -> None:
    """What loads the library that talks to it is in the image, and its volume stays empty."""
    settings = {"KAFKA_NODE_ID": "7", "KAFKA_TALLYSTICK_STORE": postgresql.url("image")}
    for number in range(2):
        one = container(**settings)
        with one.running(read_only=True) as running:
            if number == 0:
                make_topic(one.bootstrap, "orders")
            commit(one.bootstrap, "orders", b"%d" % number)
            found = values(one.bootstrap, "orders", number + 1)
            assert found == [b"%d" % before for before in range(number + 1)]
            asked = admin(one.bootstrap)
            assert [node.id for node in asked.describe_cluster().result(SECONDS).nodes] == [7]
            running.broker().kill()
        assert list(one.volume.iterdir()) == []


def test_its_records_may_lie_in_a_bucket(
    container: Callable[..., Container], postgresql: PostgresqlServer, s3: S3Server
) -> None:
    """What loads the library that talks to that is in the image, too."""
    store = {"KAFKA_TALLYSTICK_STORE": postgresql.url("image_and_a_bucket")}
    objects = {"KAFKA_TALLYSTICK_STORE_OBJECTS": f"s3://{BUCKET}/image", **environment(s3.port)}
    one = container(KAFKA_NODE_ID="7", **store, **objects)
    with one.running(read_only=True) as running:
        make_topic(one.bootstrap, "orders")
        commit(one.bootstrap, "orders", b"what was ordered")
        assert values(one.bootstrap, "orders", 1) == [b"what was ordered"]
        assert running.stop() == 0
    looking = Looking(s3.port, "image")
    assert any(b"what was ordered" in looking.bytes_of(name) for name in looking.names())
