"""The Helm chart with a store: what Kubernetes is told, and three brokers with the variables of three pods."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallystick.certificates import make_for_development
from tests.distributions.test_chart import CHART, helm, needs_helm, rendered
from tests.distributions.three_nodes import ThreeNodes, here, is_known, settings_of
from tests.harness.proxy import free_port
from tests.shared_store.postgresql_server import PostgresqlServer

pytestmark = needs_helm

STORE = {"nodes": "3", "store.secret": "database"}
SECURED = STORE | {
    "listener.protocol": "SASL_SSL",
    "tls.secret": "server",
    "sasl.mechanisms": "{SCRAM-SHA-512}",
    "sasl.firstUsersSecret": "users",
    "sasl.nodesSecret": "nodes",
}
NODES = {"username": "nodes", "password": "secret of nodes"}
FIRST_USERS = "SCRAM-SHA-512=[name=nodes,password=secret of nodes] SCRAM-SHA-512=[name=alice,password=SECRET]\n"
TO_TRY = CHART.parent / "postgresql-to-try.yaml"


def objects(values: Mapping[str, str], *files: Path) -> dict[str, Any]:
    """By kind; the services by their names, too."""
    found = [one for one in yaml.safe_load_all(rendered(dict(values), *files)) if one is not None]
    return {one["kind"]: one for one in found} | {
        one["metadata"]["name"]: one for one in found if one["kind"] == "Service"
    }


def variables(
    pod: Mapping[str, Any], name: str, secrets: Mapping[str, Mapping[str, str]], *, zone: str | None = None
) -> dict[str, str]:
    """What Kubernetes makes of them for the pod of that name. `$(NAME)` is a variable that stands before it; of a label
    that is not there, an empty one is made."""
    index = name.rpartition("-")[2]
    fields = {"metadata.name": name, "metadata.labels['apps.kubernetes.io/pod-index']": index}
    fields["metadata.labels['topology.kubernetes.io/zone']"] = zone or ""
    found: dict[str, str] = {}
    for one in pod["containers"][0].get("envFrom", ()):
        found |= secrets[one["secretRef"]["name"]]
    for one in pod["containers"][0]["env"]:
        if "value" in one:
            found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda other: found[other[1]], one["value"])
        elif "secretKeyRef" in one["valueFrom"]:
            asked = one["valueFrom"]["secretKeyRef"]
            found[one["name"]] = secrets[asked["name"]][asked["key"]]
        else:
            found[one["name"]] = fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
    return found


def test_pods_have_no_volume_and_are_moved_one_at_a_time() -> None:
    told = objects(STORE)
    of_pods = told["StatefulSet"]["spec"]
    assert of_pods["replicas"] == 3
    assert "volumeClaimTemplates" not in of_pods
    assert [one["name"] for one in of_pods["template"]["spec"]["volumes"]] == ["tmp"]
    budget = told["PodDisruptionBudget"]["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    labels = of_pods["template"]["metadata"]["labels"].items()
    spread = of_pods["template"]["spec"]["topologySpreadConstraints"]
    selectors = [budget["selector"], *(one["labelSelector"] for one in spread)]
    assert all(one["matchLabels"].items() <= labels for one in selectors)
    assert {one["whenUnsatisfiable"] for one in spread} == {"ScheduleAnyway"}


def test_a_node_has_the_number_of_its_pod_and_its_name() -> None:
    told = objects(STORE)
    secrets = {"database": {"url": "postgresql://database.example/kafka"}}
    service = told[told["StatefulSet"]["spec"]["serviceName"]]["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"]
    for number in range(3):
        name = f"mine-tallystick-{number}"
        found = variables(told["StatefulSet"]["spec"]["template"]["spec"], name, secrets)
        is_known(settings_of(found))
        assert found["KAFKA_NODE_ID"] == str(number)
        assert found["KAFKA_ADVERTISED_LISTENERS"] == f"CLIENTS://{name}.mine-tallystick-pods.default.svc:9092"
        assert found["KAFKA_TALLYSTICK_STORE"] == secrets["database"]["url"]


def test_one_node_over_a_store_needs_neither_volume_nor_budget() -> None:
    told = objects({"store.secret": "database"})
    assert "volumeClaimTemplates" not in told["StatefulSet"]["spec"]
    assert "PodDisruptionBudget" not in told and "PodDisruptionBudget" not in objects({})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"nodes": "3"}, "store.secret names a Secret"),
        ({**STORE, "listener.advertised": "kafka.example.com:9092"}, r"with $(POD_NAME) in it"),
        ({**SECURED, "sasl.nodesSecret": ""}, "sasl.nodesSecret names a Secret"),
        ({**STORE, "sasl.nodesSecret": "nodes"}, "the first of sasl.mechanisms"),
    ],
)
def test_what_does_not_come_together_is_refused(values: dict[str, str], said: str) -> None:
    chosen = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    done = helm("template", "mine", str(CHART), "--kube-version", "1.31.0", *chosen)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_kubernetes_that_numbers_no_pods_is_refused() -> None:
    asked = ["template", "mine", str(CHART), "--set", "nodes=3,store.secret=database", "--kube-version"]
    assert helm(*asked, "1.28.0").returncode == 0
    done = helm(*asked, "1.27.9")
    assert done.returncode != 0
    assert "since 1.28" in done.stderr


def test_the_database_to_try_is_where_its_secret_says() -> None:
    text = TO_TRY.read_text()
    told = {one["kind"]: one for one in yaml.safe_load_all(text)}
    url = re.search(r"--from-literal=url=(\S+)", text)
    assert url is not None
    (container,) = told["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    said = {one["name"]: one for one in container["env"]}
    user, name = said["POSTGRES_USER"]["value"], said["POSTGRES_DB"]["value"]
    assert url[1] == f"postgresql://{user}:$PASSWORD@{told['Service']['metadata']['name']}/{name}"
    asked = said["POSTGRES_PASSWORD"]["valueFrom"]["secretKeyRef"]
    assert f"create secret generic {asked['name']} --from-literal={asked['key']}=$PASSWORD" in text
    labels = told["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert told["Service"]["spec"]["selector"] == labels == told["StatefulSet"]["spec"]["selector"]["matchLabels"]
    assert told["Service"]["spec"]["ports"][0]["port"] == 5432
    (mount,) = container["volumeMounts"]
    assert said["PGDATA"]["value"].startswith(mount["mountPath"])
    assert [one["metadata"]["name"] for one in told["StatefulSet"]["spec"]["volumeClaimTemplates"]] == [mount["name"]]


@pytest.fixture
def secured(postgresql: PostgresqlServer, tmp_path: Path) -> Iterator[ThreeNodes]:
    certificates, users = tmp_path / "certificates", tmp_path / "first-users"
    make_for_development(certificates, hosts=["localhost"], clients=[], days=1)
    (certificates / "tls.pem").write_bytes((certificates / "server.pem").read_bytes())
    users.write_text(FIRST_USERS)
    pod = objects(SECURED)["StatefulSet"]["spec"]["template"]["spec"]
    secrets = {"database": {"url": postgresql.url("chart")}, "nodes": NODES}
    of_each: list[dict[str, str]] = []
    for number in range(3):
        name, port = f"mine-tallystick-{number}", free_port()
        addresses = {
            "0.0.0.0:9092": f"localhost:{port}",
            f"{name}.mine-tallystick-pods.default.svc:9092": f"localhost:{port}",
            "/etc/kafka/tls/": f"{certificates}/",
        }
        found = here(variables(pod, name, secrets), addresses)
        # Which names a file in a folder that is not on this machine.
        del found["KAFKA_TALLYSTICK_ADD_SCRAM_CREDENTIALS"]
        of_each.append(found | {"KAFKA_TALLYSTICK_ADD_SCRAM": users.read_text().strip()})
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "SECRET"}
    trusting = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(certificates / "ca.pem")}
    nodes = ThreeNodes(tmp_path, of_each, login | trusting)
    yield nodes
    nodes.close()


def test_three_processes_with_its_variables_go_through_a_kill(secured: ThreeNodes) -> None:
    secured.go_through_a_kill()
