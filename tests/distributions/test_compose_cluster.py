"""docker/compose.cluster.yml: three nodes over a database, none of which keeps anything; compose.cluster-s3.yml: the
same with a bucket. What they say is looked at, and what they set is set to three processes, one of which is killed,
over a PostgreSQL and over the gateway with the command of its container.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from broker.shared.bucket import Place
from tests.distributions.a_bucket import FOLDER, PORT, ABucket, what_lies_in
from tests.distributions.three_nodes import ThreeNodes, here, is_known, settings_of, without_credentials
from tests.harness.proxy import free_port
from tests.harness.source_tree import ROOT
from tests.shared_store.postgresql_server import PostgresqlServer

# What is read of the environment is what it is by default.
SAID: Mapping[str, Any] = {
    name: yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / "docker" / name).read_text()))
    for name in ("compose.cluster.yml", "compose.cluster-s3.yml")
}
PLAIN, WITH_A_BUCKET = SAID.values()
NUMBERS = (1, 2, 3)
OF_A_BUCKET = (
    *("KAFKA_TALLYSTICK_STORE_OBJECTS", "AWS_ENDPOINT_URL", "AWS_REGION"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
)
each_file = pytest.mark.parametrize("said", [pytest.param(said, id=name) for name, said in SAID.items()])


def nodes_of(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: service for name, service in said["services"].items() if name not in ("postgresql", "s3")}


def database_of(said: Mapping[str, Any]) -> dict[str, str]:
    """What PostgreSQL is told to make."""
    told = said["services"]["postgresql"]["environment"]
    return {name.removeprefix("POSTGRES_"): value for name, value in told.items()}


@each_file
def test_nodes_differ_in_their_id_and_their_addresses_alone(said: Mapping[str, Any]) -> None:
    nodes = nodes_of(said)
    assert list(nodes) == [f"node{number}" for number in NUMBERS]
    alone: list[Any] = []
    for number, (name, node) in zip(NUMBERS, nodes.items(), strict=True):
        variables = dict(node["environment"])
        assert variables.pop("KAFKA_NODE_ID") == str(number)
        (published,) = node["ports"]
        address, outside, inside = published.split(":")
        assert (address, inside) == ("127.0.0.1", "9092")
        told = variables.pop("KAFKA_ADVERTISED_LISTENERS")
        assert told == f"PLAINTEXT://localhost:{outside},INTERNAL://{name}:19092"
        alone.append((variables, {key: value for key, value in node.items() if key not in ("environment", "ports")}))
    assert alone[0] == alone[1] == alone[2]


@each_file
@pytest.mark.parametrize("number", NUMBERS)
def test_each_variable_is_a_setting(said: Mapping[str, Any], number: int) -> None:
    is_known(settings_of(nodes_of(said)[f"node{number}"]["environment"]))


@each_file
def test_a_node_keeps_nothing_and_comes_back(said: Mapping[str, Any]) -> None:
    asked = {name: {"condition": "service_healthy"} for name in said["services"] if not name.startswith("node")}
    for node in nodes_of(said).values():
        assert "volumes" not in node
        assert node["tmpfs"] == ["/var/lib/tallystick/data"]
        assert node["restart"] == "unless-stopped"
        assert node["depends_on"] == asked
        assert (ROOT / "docker" / node["build"]["context"] / node["build"]["dockerfile"]).is_file()
        assert "command" not in node and "healthcheck" not in node, "those of the image"


@each_file
def test_the_database_is_kept_and_is_the_one_that_nodes_are_told(said: Mapping[str, Any]) -> None:
    database, made = said["services"]["postgresql"], database_of(said)
    (volume,) = database["volumes"]
    assert volume.split(":") == ["database", "/var/lib/postgresql/data"]
    assert "database" in said["volumes"]
    for node in nodes_of(said).values():
        told = "postgresql://{USER}:{PASSWORD}@postgresql/{DB}".format(**made)
        assert node["environment"]["KAFKA_TALLYSTICK_STORE"] == told
    assert "ports" not in database
    asked = database["healthcheck"]["test"]
    assert asked[:2] == ["CMD", "pg_isready"]
    assert (made["USER"], made["DB"]) == (asked[asked.index("--username") + 1], asked[asked.index("--dbname") + 1])


def test_a_bucket_is_all_that_the_second_file_has_more() -> None:
    services = dict(WITH_A_BUCKET["services"])
    del services["s3"]
    for name in nodes_of(WITH_A_BUCKET):
        node = services[name] = {**services[name]}
        node["environment"] = {key: value for key, value in node["environment"].items() if key not in OF_A_BUCKET}
        node["depends_on"] = {key: value for key, value in node["depends_on"].items() if key != "s3"}
    assert services == PLAIN["services"]
    assert set(WITH_A_BUCKET["volumes"]) - set(PLAIN["volumes"]) == {"bucket"}
    assert WITH_A_BUCKET["name"] != PLAIN["name"], "each has a database of its own"


def test_the_bucket_is_kept_and_is_the_one_that_nodes_are_told() -> None:
    s3 = WITH_A_BUCKET["services"]["s3"]
    (volume,) = s3["volumes"]
    assert volume == f"bucket:{FOLDER}"
    made = s3["environment"]
    port = made["VGW_PORT"].removeprefix(":")
    for node in nodes_of(WITH_A_BUCKET).values():
        told = node["environment"]
        assert {name: told[name] for name in OF_A_BUCKET[1:]} == {
            "AWS_ENDPOINT_URL": f"http://s3:{port}",
            "AWS_REGION": made["VGW_REGION"],
            "AWS_ACCESS_KEY_ID": made["ROOT_ACCESS_KEY_ID"],
            "AWS_SECRET_ACCESS_KEY": made["ROOT_SECRET_ACCESS_KEY"],
        }
        place = Place(told["KAFKA_TALLYSTICK_STORE_OBJECTS"])
        assert f"mkdir -p {FOLDER}/{place.bucket} " in s3["entrypoint"][-1]
    assert "ports" not in s3
    asked = urlsplit(s3["healthcheck"]["test"][-1])
    assert (asked.netloc, asked.path) == (f"127.0.0.1:{port}", made["VGW_HEALTH"])
    assert (s3["read_only"], s3["cap_drop"], s3["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
    image, _, version = s3["image"].partition(":")
    assert image == "versity/versitygw" and re.fullmatch(r"v\d+\.\d+\.\d+", version)


@contextmanager
def started(
    said: Mapping[str, Any], postgresql: PostgresqlServer, folder: Path, also: Mapping[str, str]
) -> Iterator[ThreeNodes]:
    """The nodes of a file as processes; `also` are addresses that all of them are told."""
    made = database_of(said)
    of_each: list[dict[str, str]] = []
    for name, node in nodes_of(said).items():
        outside, inside = free_port(), free_port()
        published = node["ports"][0].split(":")[1]
        addresses = {
            "0.0.0.0:9092": f"127.0.0.1:{outside}",
            "0.0.0.0:19092": f"127.0.0.1:{inside}",
            f"localhost:{published}": f"127.0.0.1:{outside}",
            f"{name}:19092": f"127.0.0.1:{inside}",
            "@postgresql/": f"@{postgresql.host}/",
        }
        of_each.append(here(node["environment"], addresses | also))
    postgresql.make_database(made["USER"], made["PASSWORD"], made["DB"])
    try:
        nodes = ThreeNodes(folder, of_each, {})
        try:
            yield nodes
        finally:
            nodes.close()
    finally:
        postgresql.drop_database(made["USER"], made["DB"])


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[ABucket]:
    s3 = WITH_A_BUCKET["services"]["s3"]
    place = WITH_A_BUCKET["services"]["node1"]["environment"]["KAFKA_TALLYSTICK_STORE_OBJECTS"]
    made = ABucket(tmp_path / "s3", s3["entrypoint"], s3["environment"], place)
    yield made
    made.close()


@pytest.mark.xdist_group("postgresql")
def test_three_processes_with_its_variables_go_through_a_kill(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    with started(PLAIN, postgresql, tmp_path, {}) as cluster:
        cluster.go_through_a_kill()


@pytest.mark.xdist_group("postgresql")
def test_and_their_records_are_in_the_bucket(
    postgresql: PostgresqlServer, bucket: ABucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_credentials(monkeypatch)
    with started(WITH_A_BUCKET, postgresql, tmp_path, {f"//s3:{PORT}": f"//{bucket.address}"}) as cluster:
        written = cluster.go_through_a_kill()
        told = cluster.nodes[0].environment
        kept = what_lies_in(told["KAFKA_TALLYSTICK_STORE_OBJECTS"], told)
        assert [value for value in written if value not in kept] == []
