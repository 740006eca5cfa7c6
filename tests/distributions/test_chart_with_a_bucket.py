"""The Helm chart with a database and a bucket: what Kubernetes is told, and three brokers with the variables of three
pods, over the gateway of bucket-to-try.yaml with the command and the variables of its pod.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from broker.config.broker_config import BrokerConfig
from broker.config.sources import read_environment
from broker.shared.bucket import Place
from tests.distributions.a_bucket import FOLDER, PORT, ABucket, what_lies_in
from tests.distributions.test_chart import CHART, helm, needs_helm
from tests.distributions.test_chart_of_several import STORE, objects, variables
from tests.distributions.three_nodes import ThreeNodes, here, is_known, settings_of, without_credentials
from tests.harness.proxy import free_port
from tests.shared_store.postgresql_server import PostgresqlServer

FILE = CHART / "values-cluster-s3.yaml"
TO_TRY = CHART.parent / "bucket-to-try.yaml"
ENDPOINT = f"http://bucket:{PORT}"
KEYS = {"AWS_ACCESS_KEY_ID": "tallystick", "AWS_SECRET_ACCESS_KEY": "SECRET"}
SECRETS = {"database": {"url": "postgresql://database.example/kafka"}, "bucket": KEYS}
PODS = [f"mine-tallystick-{number}" for number in range(3)]
ZONES = ["zone-a", "zone-b", "zone-c"]
SECONDS = 60.0


def pod_of(told: dict[str, Any]) -> Any:
    return told["StatefulSet"]["spec"]["template"]["spec"]


@needs_helm
def test_the_values_are_linted() -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(FILE), "--kube-version", "1.31.0")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
def test_a_pod_is_told_of_the_bucket_and_who_it_is_there() -> None:
    told = objects({"store.s3.endpoint": ENDPOINT}, FILE)
    assert told["StatefulSet"]["spec"]["replicas"] == 3
    found = variables(pod_of(told), PODS[0], SECRETS, zone="zone-a")
    is_known(settings_of(found))
    assert found["KAFKA_TALLYSTICK_STORE_OBJECTS"] == "s3://tallystick/records"
    assert found["KAFKA_BROKER_RACK"] == "zone-a"
    of_aws = {name: value for name, value in found.items() if name.startswith("AWS_")}
    assert of_aws == KEYS | {"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": ENDPOINT}


@needs_helm
def test_a_pod_that_has_a_role_is_told_no_keys() -> None:
    role = r"serviceAccount.annotations.eks\.amazonaws\.com/role-arn"
    told = objects({"store.s3.secret": "", role: "arn:aws:iam::1:role/records"}, FILE)
    found = variables(pod_of(told), PODS[0], SECRETS)
    assert {name for name in found if name.startswith("AWS_")} == {"AWS_REGION"}
    assert told["ServiceAccount"]["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/records"
    }
    assert pod_of(told)["serviceAccountName"] == told["ServiceAccount"]["metadata"]["name"]


@needs_helm
def test_whose_service_account_a_pod_has() -> None:
    mine = objects({**STORE, "serviceAccount.name": "records"})
    assert (mine["ServiceAccount"]["metadata"]["name"], pod_of(mine)["serviceAccountName"]) == ("records", "records")
    for name in ("records", ""):
        found = objects({**STORE, "serviceAccount.create": "false", "serviceAccount.name": name})
        assert "ServiceAccount" not in found
        assert pod_of(found)["serviceAccountName"] == (name or "default")


@needs_helm
def test_what_the_chart_has_no_word_for() -> None:
    """Variables, by their values and of a Secret, and files; what has to be waited for may be pushed aside."""
    also = {
        "extraEnv[0].name": "SSL_CERT_FILE",
        "extraEnv[0].value": "/etc/ca/ca.pem",
        "extraEnvFrom[0].secretRef.name": "bucket",
        "store.s3.secret": "",
        "extraVolumes[0].name": "ca",
        "extraVolumes[0].secret.secretName": "authority",
        "extraVolumeMounts[0].name": "ca",
        "extraVolumeMounts[0].mountPath": "/etc/ca",
        "priorityClassName": "brokers",
    }
    pod = pod_of(objects(also, FILE))
    found = variables(pod, PODS[0], SECRETS)
    assert found["SSL_CERT_FILE"] == "/etc/ca/ca.pem"
    assert found.items() >= KEYS.items()
    assert {"name": "ca", "secret": {"secretName": "authority"}} in pod["volumes"]
    assert {"name": "ca", "mountPath": "/etc/ca"} in pod["containers"][0]["volumeMounts"]
    assert pod["priorityClassName"] == "brokers"


@needs_helm
def test_a_pod_without_a_zone_is_in_no_rack() -> None:
    found = variables(pod_of(objects({}, FILE)), PODS[0], SECRETS)
    assert found["KAFKA_BROKER_RACK"] == ""
    assert BrokerConfig(read_environment(settings_of(found))).rack is None
    assert "KAFKA_BROKER_RACK" not in variables(pod_of(objects(STORE)), PODS[0], SECRETS)


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"store.objects": "s3://tallystick/records"}, "store.secret names a Secret"),
        ({**STORE, "store.objects": "tallystick/records"}, "s3://BUCKET/FOLDER"),
        ({**STORE, "store.s3.region": "eu-central-1"}, "store.objects is reached"),
        ({**STORE, "store.s3.endpoint": ENDPOINT}, "store.objects is reached"),
        ({**STORE, "store.s3.secret": "bucket"}, "store.objects is reached"),
    ],
)
def test_what_does_not_come_together_is_refused(values: dict[str, str], said: str) -> None:
    chosen = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    done = helm("template", "mine", str(CHART), "--kube-version", "1.31.0", *chosen)
    assert done.returncode != 0
    assert said in done.stderr


def test_the_bucket_to_try_is_the_one_of_the_values() -> None:
    text, values = TO_TRY.read_text(), yaml.safe_load(FILE.read_text())
    told = {one["kind"]: one for one in yaml.safe_load_all(text)}
    service, pods = told["Service"], told["StatefulSet"]["spec"]
    assert f"--set store.s3.endpoint=http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}" in text
    assert pods["template"]["metadata"]["labels"] == service["spec"]["selector"] == pods["selector"]["matchLabels"]
    (container,) = pods["template"]["spec"]["containers"]
    said = {one["name"]: one for one in container["env"]}
    assert said["VGW_REGION"]["value"] == values["store"]["s3"]["region"]
    for one in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        asked = said[f"ROOT_{one}"]["valueFrom"]["secretKeyRef"]
        assert asked == {"name": values["store"]["s3"]["secret"], "key": f"AWS_{one}"}
        assert re.search(rf"create secret generic {asked['name']} .*--from-literal={asked['key']}=", text)
    assert f"mkdir -p {FOLDER}/{Place(values['store']['objects']).bucket} " in container["command"][-1]
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == FOLDER
    assert [one["metadata"]["name"] for one in pods["volumeClaimTemplates"]] == [mount["name"]]
    assert container["readinessProbe"]["httpGet"]["path"] == said["VGW_HEALTH"]["value"]


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[ABucket]:
    (told,) = (one for one in yaml.safe_load_all(TO_TRY.read_text()) if one["kind"] == "StatefulSet")
    pod = told["spec"]["template"]["spec"]
    place = yaml.safe_load(FILE.read_text())["store"]["objects"]
    made = ABucket(tmp_path / "s3", pod["containers"][0]["command"], variables(pod, "bucket-0", SECRETS), place)
    yield made
    made.close()


@pytest.fixture
def nodes(
    postgresql: PostgresqlServer, bucket: ABucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThreeNodes]:
    without_credentials(monkeypatch)
    pod = pod_of(objects({"store.s3.endpoint": ENDPOINT}, FILE))
    secrets = SECRETS | {"database": {"url": postgresql.url("chart_with_a_bucket")}}
    of_each: list[dict[str, str]] = []
    for name, zone in zip(PODS, ZONES, strict=True):
        port = free_port()
        addresses = {
            "0.0.0.0:9092": f"127.0.0.1:{port}",
            f"{name}.mine-tallystick-pods.default.svc:9092": f"127.0.0.1:{port}",
            ENDPOINT: f"http://{bucket.address}",
        }
        of_each.append(here(variables(pod, name, secrets, zone=zone), addresses))
    made = ThreeNodes(tmp_path, of_each, {})
    yield made
    made.close()


@needs_helm
def test_three_processes_with_its_variables_keep_their_records_in_the_bucket(nodes: ThreeNodes) -> None:
    asked = AdminClient({"bootstrap.servers": nodes.nodes[0].bootstrap})
    told = asked.describe_cluster().result(SECONDS).nodes
    assert sorted((one.id, one.rack) for one in told) == list(enumerate(ZONES))
    written = nodes.go_through_a_kill()
    environment = nodes.nodes[0].environment
    kept = what_lies_in(environment["KAFKA_TALLYSTICK_STORE_OBJECTS"], environment)
    assert [value for value in written if value not in kept] == []
