"""A TLS listener, handshake by handshake and setting by setting: who gets in, and what may change while it is open.

`TALLYSTICK_TEST_BROKER=apache-kafka` asks Apache Kafka.
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.errors import ErrorCode
from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.metadata import ApiVersionsRequest
from tallystick import Broker
from tests.harness.broker import NODE_COUNT
from tests.harness.certificates import HOSTS, Certificates
from tests.harness.confluent import wait_until
from tests.harness.secure_broker import SecureBroker, secure_broker
from tests.server.wire import Wire

BROKER, SET = 4, 0
PREFIX = "listener.name.secure."
SHOWS = str(NODE_COUNT)
"""The node behind the address."""
KEYSTORE = f"{PREFIX}ssl.keystore.location"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@dataclass(frozen=True, slots=True)
class Place:
    """A listener that wants certificates, and an open one."""

    broker: SecureBroker
    certificates: Certificates
    others: Certificates

    def guarded(self, context: ssl.SSLContext | None) -> Wire:
        return Wire(cast(Broker, SimpleNamespace(bootstrap=self.broker.bootstrap)), tls=context)

    def open(self, context: ssl.SSLContext | None = None) -> Wire:
        return Wire(cast(Broker, SimpleNamespace(bootstrap=self.broker.open_bootstrap)), tls=context)

    def alter(self, name: str, value: str, *, of: str = SHOWS, validate_only: bool = False) -> int:
        """The error code."""
        setting = IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=SET, value=value)
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=BROKER, resource_name=of, configs=[setting]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        with self.open() as wire:
            answer: Any = wire.ask(request, 0)
        return int(answer.responses[0].error_code)

    def serial(self) -> str:
        """Of the certificate that the broker shows now."""
        with self.guarded(self.certificates.client_context("alice")) as wire:
            assert served(wire)
            return str(cast(ssl.SSLSocket, wire.socket).getpeercert()["serialNumber"])  # type: ignore[index]


def served(wire: Wire) -> bool:
    return bool(cast(Any, wire.ask(ApiVersionsRequest(), 0)).error_code == 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    certificates, others = Certificates(folder / "certificates"), Certificates(folder / "others", name="another")
    certificates.issue("alice")
    others.issue("mallory")
    certificates.issue("late", ended=True)
    certificates.issue("another", hosts=HOSTS)
    certificates.issue("fewer", hosts=("localhost",), common_name="server")
    settings = certificates.settings(client_auth="required", prefix=PREFIX)
    made = secure_broker(folder / "broker", settings, "SSL")
    yield Place(made, certificates, others)
    made.process.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shown", ["alice", None, "late", "mallory"])
def test_who_is_vouched_for_is_let_in(place: Place, shown: str | None, version: ssl.TLSVersion) -> None:
    context = place.certificates.client_context(None if shown == "mallory" else shown)
    if shown == "mallory":
        context.load_cert_chain(place.others.path("mallory"))
    context.minimum_version = context.maximum_version = version
    if shown == "alice":
        assert served(place.guarded(context))
        return
    with pytest.raises(ssl.SSLError, match="ALERT"):  # with TLS 1.3 it is told after it has sent its request
        served(place.guarded(context))


def test_who_speaks_in_the_open_where_tls_is_spoken_hears_nothing(place: Place) -> None:
    wire = place.guarded(None)
    wire.send(bytes(100))
    data = b""
    with pytest.raises((AssertionError, ConnectionError)):
        while True:
            data += wire._exactly(1)
    assert data[:1] in (b"", b"\x15"), "nothing, or an alert of TLS"


def test_who_speaks_tls_where_nobody_does_is_disconnected(place: Place) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        place.open(place.certificates.client_context())


@pytest.mark.parametrize(
    ("name", "value", "of"),
    [
        (KEYSTORE, "/nowhere.pem", SHOWS),
        (KEYSTORE, "another", SHOWS),
        (KEYSTORE, "fewer", SHOWS),
        (KEYSTORE, "alice", ""),
        ("ssl.keystore.location", "server", SHOWS),
        ("ssl.keystore.location", "server", ""),
        (f"{PREFIX}ssl.truststore.location", "/nowhere.pem", SHOWS),
        (f"{PREFIX}ssl.client.auth", "maybe", SHOWS),
    ],
)
def test_what_is_refused_changes_nothing(place: Place, name: str, value: str, of: str) -> None:
    before = place.serial()
    path = place.certificates.path(value)
    assert place.alter(name, str(path) if path.exists() else value, of=of) == ErrorCode.INVALID_REQUEST
    assert place.serial() == before


def test_a_certificate_is_changed_while_the_listener_is_open(place: Place) -> None:
    """Also where only the file is another. Who is in stays in."""
    with place.guarded(place.certificates.client_context("alice")) as early:
        assert served(early)
        for _ in range(2):
            before = place.serial()
            path = str(place.certificates.issue("next", hosts=HOSTS, common_name="server"))
            assert place.alter(KEYSTORE, path, validate_only=True) == 0
            assert place.alter(KEYSTORE, path) == 0
            wait_until(lambda before=before: place.serial() != before, "the new certificate")
        assert served(early)


def test_whom_to_trust_is_changed_while_the_listener_is_open(place: Place) -> None:
    mallory = place.certificates.client_context()
    mallory.load_cert_chain(place.others.path("mallory"))
    early = place.guarded(place.certificates.client_context("alice"))
    assert served(early)

    def is_let_in(context: ssl.SSLContext) -> bool:
        try:
            return served(place.guarded(context))
        except ssl.SSLError:
            return False

    assert not is_let_in(mallory)
    name = f"{PREFIX}ssl.truststore.location"
    assert place.alter(name, str(place.others.path("ca"))) == 0
    wait_until(lambda: is_let_in(mallory), "the new authority")
    assert not is_let_in(place.certificates.client_context("alice"))
    assert served(early)
    assert place.alter(name, str(place.certificates.path("ca"))) == 0
    wait_until(lambda: not is_let_in(mallory), "the authority of before")
