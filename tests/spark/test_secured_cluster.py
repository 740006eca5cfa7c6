"""Spark queries on clusters that want TLS and names: source and sink, and what is said where they do not come together.

The lines of `docs/spark.md` run as they stand; only address, password, files and folders are ours.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.certificates import Certificates
from tests.harness.confluent import make_topic, read_all, values_of, wait_until, write
from tests.harness.secure_broker import MODULES, SCRAM, SecureBroker, sasl_settings, secure_broker
from tests.harness.token_issuer import TokenIssuer
from tests.spark.eos_queries import RECORDS, input_of, output_of
from tests.spark.queries import SECONDS, finished, options, values
from tests.spark.session import ROOT

PREFIX = "listener.name.secure."
PASSWORD = "secret"
STOCK = ("kafka", "kafka")
WHOLE = pytest.mark.whole
OURS = ("kafka-arrow", "kafka-eos")


@dataclass(frozen=True, slots=True)
class Place:
    """A broker whose guarded listener speaks SASL over TLS, and asks for certificates."""

    broker: SecureBroker
    certificates: Certificates
    token: Path

    def options(self, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """For Spark's connector and for ours."""
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.certificates.path("ca")),
        } | _named(mechanism, password, self.token)


def _named(mechanism: str, password: str, token: Path) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        module = f"{MODULES}.oauthbearer.OAuthBearerLogin"
        said = {
            "kafka.sasl.oauthbearer.token.endpoint.url": token.as_uri(),
            "kafka.sasl.login.callback.handler.class": f"{module}CallbackHandler",
            "kafka.sasl.jaas.config": f"{module}Module required;",
        }
    else:
        module = f"{MODULES}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{MODULES}.scram.ScramLoginModule"
        said = {"kafka.sasl.jaas.config": f'{module} required username="spark" password="{password}";'}
    return {"kafka.sasl.mechanism": mechanism} | said


@pytest.fixture(scope="module")
def place(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("secured")
    certificates, issuer = Certificates(folder / "certificates"), TokenIssuer()
    certificates.issue("spark")
    users = {"spark": PASSWORD}
    settings = sasl_settings(users, "OAUTHBEARER") | certificates.settings(prefix=PREFIX) | issuer.settings(folder)
    settings[f"{PREFIX}ssl.client.auth"] = "requested"
    token = folder / "token"
    token.write_text(issuer.token("spark"))
    broker = secure_broker(folder / "broker", settings, "SASL_SSL")
    try:
        broker.add_users(users)
        yield Place(broker, certificates, token)
    finally:
        broker.process.close()


def run(spark: Any, name: str, checkpoint: str, given: Mapping[str, str], formats: tuple[str, str] = OURS) -> None:
    """From `<name>-in` to `<name>-out`, to its end."""
    source, sink = formats
    rows = spark.readStream.format(source).options(**given, subscribe=f"{name}-in", startingOffsets="earliest").load()
    to = rows.selectExpr("key", "value").writeStream.format(sink).options(**given, topic=f"{name}-out")
    query = to.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    finished(query)


@pytest.mark.parametrize(
    "mechanism",
    [
        "SCRAM-SHA-512",
        "OAUTHBEARER",
        *(pytest.param(one, marks=pytest.mark.whole) for one in ("PLAIN", "SCRAM-SHA-256")),
    ],
)
def test_source_and_sink_with_the_options_of_sparks_own(
    spark: Any, place: Place, name: str, checkpoint: str, mechanism: str
) -> None:
    wanted = input_of(place.broker.open_bootstrap, name)
    run(spark, name, checkpoint, place.options(mechanism))
    assert output_of(place.broker.open_bootstrap, name) == wanted


@pytest.mark.whole
@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_sparks_own_connector_with_the_same_options(
    spark: Any, place: Place, name: str, checkpoint: str, mechanism: str
) -> None:
    wanted = input_of(place.broker.open_bootstrap, name)
    run(spark, name, checkpoint, place.options(mechanism), STOCK)
    assert output_of(place.broker.open_bootstrap, name) == wanted


def test_a_batch_over_tls_with_a_certificate_and_java_stores(spark: Any, tmp_path: Path, name: str) -> None:
    """Two-way TLS and nothing else; the stores are PKCS12, as Java has them."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.issue("alice")
    broker = secure_broker(tmp_path / "broker", certificates.settings(client_auth="required", prefix=PREFIX), "SSL")
    try:
        make_topic(broker.open_bootstrap, f"{name}-in", 2)
        write(broker.open_bootstrap, f"{name}-in", [b"one", b"two"])
        stores = certificates.pkcs12_of_a_client("alice")
        given = {f"kafka.{setting}": value for setting, value in stores.items()} | {"kafka.security.protocol": "SSL"}
        for source in ("kafka-arrow", "kafka"):
            rows = spark.read.format(source).options(**options(broker.bootstrap, given), subscribe=f"{name}-in").load()
            assert values(rows) == [b"one", b"two"]
    finally:
        broker.process.close()


def refused(spark: Any, name: str, checkpoint: str, given: Mapping[str, str], words: str) -> None:
    """By source and sink, each on its own."""
    reading = spark.read.format("kafka-arrow").options(**given, subscribe=f"{name}-in")
    with pytest.raises(Exception, match=words):
        reading.load().collect()
    frame = spark.range(3).selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match=words):
        frame.write.mode("append").format("kafka-eos").options(**given, topic=f"{name}-out").save()


def test_what_does_not_come_together_is_said_at_once(
    spark: Any, place: Place, name: str, checkpoint: str, tmp_path: Path
) -> None:
    """With the patience of two minutes that queries have by default, which is not waited for."""
    input_of(place.broker.open_bootstrap, name)
    right = place.options("SCRAM-SHA-512")
    strangers = Certificates(tmp_path, name="another authority")
    open_listener = {"kafka.bootstrap.servers": place.broker.open_bootstrap}
    wrong: list[tuple[dict[str, str], str]] = [
        (place.options("SCRAM-SHA-512", "guessed"), "SASL_AUTHENTICATION_FAILED.*Correct kafka.sasl.jaas.config"),
        (right | {"kafka.sasl.mechanism": "GSSAPI"}, "kafka.sasl.mechanism=GSSAPI is not spoken here"),
        (right | {"kafka.ssl.truststore.location": str(strangers.path("ca"))}, "is not trusted.*kafka.ssl.truststore"),
        (right | {"kafka.ssl.truststore.location": "/nowhere.pem"}, "a store cannot be read"),
        (right | {"kafka.security.protocol": "PLAINTEXT"}, "speaks TLS: kafka.security.protocol is SSL or SASL_SSL"),
        (right | open_listener, "does not speak TLS: kafka.security.protocol is PLAINTEXT"),
        (right | open_listener | {"kafka.security.protocol": "SASL_PLAINTEXT"}, "the listener does not take SASL"),
    ]
    for number, (given, words) in enumerate(wrong):
        refused(spark, name, f"{checkpoint}-{number}", given, words)
    assert output_of(place.broker.open_bootstrap, name) == []


def the_lines() -> str:
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```$", (ROOT / "docs/spark.md").read_text(), re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if "SASL_SSL" in block and "kafka-eos" in block]
    return str(found)


def test_the_lines_of_the_docs_are_an_exactly_once_sink(spark: Any, place: Place, checkpoint: str) -> None:
    for topic in ("orders", "invoices"):
        make_topic(place.broker.open_bootstrap, topic)
    write(place.broker.open_bootstrap, "orders", [b"one", b"two"])
    program = the_lines().replace("broker.example.org:9093", place.broker.bootstrap)
    program = program.replace("/etc/kafka/ca.pem", str(place.certificates.path("ca"))).replace(
        "/data/invoices", checkpoint
    )
    names: dict[str, Any] = {"spark": spark}
    exec(program, names)
    query = names["query"]
    try:
        wait_until(
            lambda: query.exception() or len(read_all(place.broker.open_bootstrap, "invoices")) == 2,
            "two invoices",
            seconds=SECONDS,
        )
        assert sorted(values_of(read_all(place.broker.open_bootstrap, "invoices"))) == [b"ONE", b"TWO"]
    finally:
        query.stop()


@pytest.mark.whole
def test_many_writers_and_offsets_of_a_group(spark: Any, place: Place, name: str, checkpoint: str) -> None:
    from spark_connector.sink.foreach_batch import eos_writer

    wanted = input_of(place.broker.open_bootstrap, name)
    given = place.options("SCRAM-SHA-256")
    rows = (
        spark.readStream.format("kafka-arrow")
        .options(**given, subscribe=f"{name}-in", startingOffsets="earliest")
        .load()
    )
    write_batch = eos_writer(
        {**given, "topic": f"{name}-out", "checkpointLocation": checkpoint, "groupId": f"{name}-group"}, tasks=2
    )
    query = rows.selectExpr("key", "value").writeStream.foreachBatch(write_batch)
    finished(query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
    assert output_of(place.broker.open_bootstrap, name) == wanted
    assert len(wanted) == RECORDS
