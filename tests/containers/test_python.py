"""`tallystick.testcontainers` with a real engine: addresses that clients can use, from this machine and from other
containers, without any port being known before the start.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from tests.containers.conftest import Engine
from tests.harness.confluent import SECONDS, admin, make_topic, read_all, values_of, write

if TYPE_CHECKING:
    from tallystick.testcontainers import TallystickContainer


@pytest.fixture(scope="module")
def container(engine: Engine) -> "type[TallystickContainer]":
    pytest.importorskip("testcontainers", reason="Testcontainers is not installed: `make test-containers` does it")
    from tallystick.testcontainers import TallystickContainer

    return TallystickContainer


@pytest.fixture(scope="module")
def broker(container: "type[TallystickContainer]") -> "Iterator[TallystickContainer]":
    with container().with_setting("num.partitions", "3").with_setting("log.retention.ms", "86400000") as started:
        yield started


def test_two_of_them_serve_beside_each_other(
    broker: "TallystickContainer", container: "type[TallystickContainer]"
) -> None:
    with container(durability="fsync") as other:
        addresses = [broker.get_bootstrap_server(), other.get_bootstrap_server()]
        assert len(set(addresses)) == 2
        for number, address in enumerate(addresses):
            make_topic(address, "orders")
            write(address, "orders", [b"%d" % number])
            (told,) = admin(address).list_topics(timeout=SECONDS).brokers.values()
            assert f"{told.host}:{told.port}" == address
        assert [values_of(read_all(address, "orders")) for address in addresses] == [[b"0"], [b"1"]]


def test_the_lines_of_the_page_run(container: "type[TallystickContainer]") -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "pytest.md").read_text()
    (lines,) = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    exec(lines, {})


def test_settings_are_those_of_the_broker(broker: "TallystickContainer") -> None:
    asked = admin(broker.get_bootstrap_server())
    resource = ConfigResource(ResourceType.BROKER, "1")
    told = asked.describe_configs([resource])[resource].result(SECONDS)
    found = {name: told[name].value for name in ("num.partitions", "log.retention.ms", "tallystick.durability")}
    assert found == {
        "num.partitions": "3",
        "log.retention.ms": "86400000",
        "tallystick.durability": "page-cache",
    }


def test_another_container_of_its_network_reaches_it(container: "type[TallystickContainer]") -> None:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

    with Network() as network, container().with_network(network).with_network_aliases("broker") as broker:
        make_topic(broker.get_bootstrap_server(), "orders")
        assert broker.get_network_bootstrap_server() == "broker:19092"
        asking = ["topics", "describe", "orders", "--bootstrap-server", "broker:19092"]
        with DockerContainer(broker.image).with_network(network).with_command(asking) as other:
            assert other.wait() == 0, other.get_logs()
            assert b"orders" in other.get_logs()[0]


def test_one_that_cannot_start_says_why_and_leaves_nothing(container: "type[TallystickContainer]") -> None:
    wrong = container().with_setting("log.retention.ms", "tomorrow")
    with pytest.raises(Exception, match=r"log\.retention\.ms"), wrong:
        pass
    client = container().get_docker_client().client
    assert [one for one in client.containers.list(all=True) if one.id == wrong.get_container_id()] == []
