"""docker/compose.cluster.yml: three nodes over a database, none of which keeps anything. What it says is looked at, and
what it sets is set to three processes over a PostgreSQL, one of which is killed.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.distributions.three_nodes import ThreeNodes, here, is_known
from tests.harness.proxy import free_port
from tests.harness.source_tree import ROOT
from tests.shared_store.postgresql_server import PostgresqlServer

FILE = ROOT / "docker" / "compose.cluster.yml"
# What is read of the environment is what it is by default.
SAID: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", FILE.read_text()))
SERVICES: Mapping[str, Any] = SAID["services"]
NODES = {name: service for name, service in SERVICES.items() if name != "postgresql"}
DATABASE = SERVICES["postgresql"]


def test_nodes_differ_in_their_id_and_their_addresses_alone() -> None:
    assert list(NODES) == ["node1", "node2", "node3"]
    alone: list[Any] = []
    for number, (name, node) in enumerate(NODES.items(), 1):
        variables = dict(node["environment"])
        assert variables.pop("KAFKA_NODE_ID") == str(number)
        (published,) = node["ports"]
        address, outside, inside = published.split(":")
        assert (address, inside) == ("127.0.0.1", "9092")
        told = variables.pop("KAFKA_ADVERTISED_LISTENERS")
        assert told == f"PLAINTEXT://localhost:{outside},INTERNAL://{name}:19092"
        alone.append((variables, {key: value for key, value in node.items() if key not in ("environment", "ports")}))
    assert alone[0] == alone[1] == alone[2]


@pytest.mark.parametrize("name", NODES)
def test_each_variable_is_a_setting(name: str) -> None:
    is_known(NODES[name]["environment"])


@pytest.mark.parametrize("name", NODES)
def test_a_node_keeps_nothing_and_comes_back(name: str) -> None:
    node = NODES[name]
    assert "volumes" not in node
    assert node["tmpfs"] == ["/var/lib/tallystick/data"]
    assert node["restart"] == "unless-stopped"
    assert node["depends_on"] == {"postgresql": {"condition": "service_healthy"}}
    assert (ROOT / "docker" / node["build"]["context"] / node["build"]["dockerfile"]).is_file()
    assert "command" not in node and "healthcheck" not in node, "those of the image"


def test_the_database_is_kept_and_is_the_one_that_nodes_are_told() -> None:
    (volume,) = DATABASE["volumes"]
    assert volume.split(":") == [*SAID["volumes"], "/var/lib/postgresql/data"]
    made = {name.removeprefix("POSTGRES_"): value for name, value in DATABASE["environment"].items()}
    for node in NODES.values():
        told = "postgresql://{USER}:{PASSWORD}@postgresql/{DB}".format(**made)
        assert node["environment"]["KAFKA_TALLYSTICK_STORE"] == told
    assert "ports" not in DATABASE
    asked = DATABASE["healthcheck"]["test"]
    assert asked[:2] == ["CMD", "pg_isready"]
    assert (made["USER"], made["DB"]) == (asked[asked.index("--username") + 1], asked[asked.index("--dbname") + 1])


@pytest.fixture
def cluster(postgresql: PostgresqlServer, tmp_path: Path) -> Iterator[ThreeNodes]:
    made = {name.removeprefix("POSTGRES_"): value for name, value in DATABASE["environment"].items()}
    postgresql.make_database(made["USER"], made["PASSWORD"], made["DB"])
    of_each: list[dict[str, str]] = []
    for name, node in NODES.items():
        outside, inside = free_port(), free_port()
        published = node["ports"][0].split(":")[1]
        addresses = {
            "0.0.0.0:9092": f"127.0.0.1:{outside}",
            "0.0.0.0:19092": f"127.0.0.1:{inside}",
            f"localhost:{published}": f"127.0.0.1:{outside}",
            f"{name}:19092": f"127.0.0.1:{inside}",
            "@postgresql/": f"@{postgresql.host}/",
        }
        of_each.append(here(node["environment"], addresses))
    nodes = ThreeNodes(tmp_path, of_each, {})
    yield nodes
    nodes.close()


@pytest.mark.xdist_group("postgresql")
def test_three_processes_with_its_variables_go_through_a_kill(cluster: ThreeNodes) -> None:
    cluster.go_through_a_kill()
