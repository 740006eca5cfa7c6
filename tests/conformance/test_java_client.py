"""Apache Kafka's Java client (`tests/java/GuardedClient.java`) over TLS, however it is let in, with the rights for one
job; its stores are PEM, PKCS12 and JKS."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from tests.chaos.drivers import java
from tests.conformance.guarded_programs import do_job
from tests.harness import jars
from tests.harness.certificates import STORE_PASSWORD, Certificates
from tests.harness.guarded_place import BOTH, CERTIFICATE, PASSWORD, USER, GuardedPlace, mechanism_of, shown_by
from tests.harness.secure_broker import MODULES, SCRAM

pytestmark = pytest.mark.other_languages
LOGIN = {
    "PLAIN": "plain.PlainLoginModule",
    **dict.fromkeys(SCRAM, "scram.ScramLoginModule"),
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}
CASES = [
    ("PLAIN", "PEM"),
    ("SCRAM-SHA-256", "PKCS12"),
    ("SCRAM-SHA-512", "JKS"),
    ("OAUTHBEARER", "PEM"),
    *((CERTIFICATE, kind) for kind in ("PEM", "PKCS12", "JKS")),
    (BOTH, "PKCS12"),
]
"""How it is let in, and the type of its stores."""


@pytest.fixture(scope="module")
def program() -> Callable[[str], list[str]]:
    """The command, with the address where a token may be looked for."""
    try:
        where = f"{java.compiled()}:{java.class_path()}"
    except jars.JarsMissing as reason:
        pytest.skip(f"the Java client needs a JDK and Kafka's jars: {reason}")
    small = ["-Xmx200m", *jars.SHORT_LIFE, "-Dlog4j2.level=OFF"]
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
    return lambda token: [str(jars.java()), *small, allowed + token, "-cp", where, "GuardedClient"]


def keytool(*arguments: str) -> None:
    program = shutil.which("keytool")
    assert program is not None, "every JDK has one"
    subprocess.run([program, *arguments], capture_output=True, text=True, check=True)


def trust_store(certificates: Certificates, folder: Path, kind: str) -> dict[str, str]:
    """The settings for it."""
    authority = certificates.path("ca")
    if kind == "PEM":
        return {"ssl.truststore.type": kind, "ssl.truststore.location": str(authority)}
    path = str(folder / f"trust.{kind}")
    said = ("-keystore", path, "-storetype", kind, "-storepass", STORE_PASSWORD)
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(authority), *said)
    return {
        "ssl.truststore.type": kind,
        "ssl.truststore.location": path,
        "ssl.truststore.password": STORE_PASSWORD,
    }


def key_store(certificates: Certificates, name: str, folder: Path, kind: str) -> dict[str, str]:
    """The settings for it."""
    mine = certificates.path(name)
    if kind == "PEM":
        return {"ssl.keystore.type": kind, "ssl.keystore.location": str(mine)}
    key, certificate = load_pem_private_key(mine.read_bytes(), None), load_pem_x509_certificate(mine.read_bytes())
    secret = BestAvailableEncryption(STORE_PASSWORD.encode())
    path = folder / "keys.PKCS12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"mine", key, certificate, None, secret))  # type: ignore[arg-type]
    if kind == "JKS":
        source = ("-srckeystore", str(path), "-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD)
        path = folder / "keys.JKS"
        keytool("-importkeystore", *source, "-destkeystore", str(path), "-deststoretype", kind, "-deststorepass",
                STORE_PASSWORD)  # fmt: skip
    return {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
    }


def login(mechanism: str, token: Path) -> dict[str, str]:
    """The settings of a mechanism."""
    said = {"sasl.mechanism": mechanism, "security.protocol": "SASL_SSL"}
    who = f'username="{USER}" password="{PASSWORD}"'
    if mechanism == "OAUTHBEARER":
        who = ""
        said["sasl.login.callback.handler.class"] = f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
        said["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
    return said | {"sasl.jaas.config": f"{MODULES}.{LOGIN[mechanism]} required {who};"}


@pytest.mark.parametrize(("way", "stores"), CASES)
def test_the_java_client(
    program: Callable[[str], list[str]], place: GuardedPlace, way: str, stores: str, tmp_path: Path
) -> None:
    job = place.job()
    token = tmp_path / "token"
    token.write_text(place.issuer.token(USER))
    settings = {"bootstrap.servers": place.broker.bootstrap, "security.protocol": "SSL"}
    settings |= trust_store(place.certificates, tmp_path, stores)
    if (name := shown_by(way)) is not None:
        settings |= key_store(place.certificates, name, tmp_path, stores)
    if (mechanism := mechanism_of(way)) is not None:
        settings |= login(mechanism, token)
    client = tmp_path / "client.properties"
    client.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    arguments = [str(client), job.name, job.orders, job.invoices, job.forbidden]
    do_job([*program(token.as_uri()), *arguments], place, job)
