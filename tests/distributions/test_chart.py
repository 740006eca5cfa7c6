"""The Helm chart: linted, rendered, and a broker is started with the variables that it renders."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from broker.config.sources import read_environment
from tallystick.certificates import make_for_development
from tallystick.process import BrokerProcess
from tests.harness.proxy import free_port
from tests.harness.source_tree import ROOT

CHART = ROOT / "distributions" / "helm" / "tallystick"
HELM = shutil.which("helm", path=os.pathsep.join([os.environ.get("PATH", ""), str(ROOT / ".conformance" / "bin")]))
GETTING_HELM = "GOBIN=$PWD/.conformance/bin go install helm.sh/helm/v3/cmd/helm@v3.19.0"
SECURED = {
    "listener.protocol": "SASL_SSL",
    "tls.secret": "server",
    "sasl.mechanisms": "{SCRAM-SHA-512}",
    "sasl.firstUsersSecret": "users",
    "http.enabled": "true",
    "http.tokenSecret": "token",
    r"settings.log\.retention\.ms": "86400000",
    "tls.clientAuth": "requested",
}
SECONDS = 20.0

needs_helm = pytest.mark.skipif(HELM is None, reason=f"there is no helm ({GETTING_HELM})")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *arguments], capture_output=True, text=True, check=False)


def rendered(values: dict[str, str], *files: Path) -> str:
    chosen = [part for file in files for part in ("--values", str(file))]
    chosen += [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    done = helm("template", "mine", str(CHART), "--kube-version", "1.31.0", *chosen)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_helm
def test_it_is_linted() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"listener.protocol": "SSL"}, "tls.secret names a Secret"),
        ({"listener.protocol": "SASL_PLAINTEXT"}, "sasl.mechanisms says which"),
        ({"http.enabled": "true"}, "http.tokenSecret names a Secret"),
    ],
)
def test_what_does_not_come_together_is_refused(values: dict[str, str], said: str) -> None:
    chosen = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    done = helm("template", "mine", str(CHART), "--kube-version", "1.31.0", *chosen)
    assert done.returncode != 0
    assert said in done.stderr


@needs_helm
def test_a_pod_has_no_rights_and_one_volume() -> None:
    text = rendered({})
    for line in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "capabilities: {drop: [ALL]}", "replicas: 1"):
        assert f" {line}\n" in text
    assert "storage: 10Gi" in text
    assert "volumeClaimTemplates" not in rendered({"persistence.enabled": "false"})
    assert len(re.findall(r"exec: \{command: \[python, -P, /opt/tallystick/healthcheck\.py\]\}", text)) == 3


@needs_helm
def test_the_variables_of_a_secured_broker(tmp_path: Path) -> None:
    """Its Secrets are folders here, and its ports free ones; for the rest a broker starts with them as they are."""
    text = rendered(SECURED)
    assert len(re.findall(r"httpGet: \{path: /health/(?:live|ready), port: http\}", text)) == 3
    assert "exec:" not in text
    certificates = tmp_path / "certificates"
    make_for_development(certificates, hosts=["localhost"], clients=[], days=1)
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "tls.pem").write_bytes((certificates / "server.pem").read_bytes())
    (tmp_path / "tls" / "ca.pem").write_bytes((certificates / "ca.pem").read_bytes())
    for folder, name, secret in (
        ("secrets", "first-users", "SCRAM-SHA-512=[name=admin,password=SECRET]\n"),
        ("http", "token", "0123456789abcdef0123456789abcdef\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(secret)
    variables = {name: value.strip('"') for name, value in re.findall(r"- \{name: (\w+), value: (.*)\}", text)}
    ports = {"9092": str(free_port()), "9644": str(free_port())}
    for name, value in variables.items():
        here = value.replace("/etc/kafka/", f"{tmp_path}/").replace("mine-tallystick.default.svc", "localhost")
        variables[name] = re.sub("9092|9644", lambda one: ports[one[0]], here)
    # The names of the official image mean files in a folder that is not on this machine.
    first_users = read_environment(variables, secrets=str(tmp_path / "secrets"))["tallystick.add.scram"]
    del variables["KAFKA_TALLYSTICK_ADD_SCRAM_CREDENTIALS"]
    listening = variables.pop("KAFKA_LISTENERS")
    broker = BrokerProcess(tmp_path / "broker", options=["--listeners", listening])
    broker.environment = {**variables, "KAFKA_TALLYSTICK_ADD_SCRAM": first_users}
    try:
        broker.start()
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "admin", "sasl.password": "SECRET"}
        trusting = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(certificates / "ca.pem")}
        known = AdminClient({"bootstrap.servers": f"localhost:{ports['9092']}", **login, **trusting})
        assert known.list_topics(timeout=SECONDS).brokers
    finally:
        broker.close()
