"""Our own client at guarded listeners, with the settings that Java's clients take: the connections of asyncio, and the
blocking one that fetches. What cannot come together says why, at once.
"""

import asyncio
import base64
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.schema import schema_of
from tallystick.client.blocking_connection import BlockingConnection
from tallystick.client.client import Client, addresses_in
from tallystick.client.diagnosis import hung_up_because
from tallystick.client.errors import ConnectionLost, KafkaError, NotAuthenticated, NotSecured
from tallystick.client.security import PLAINTEXT, Security
from tallystick.client.security_settings import security_of
from tests.harness.broker import server
from tests.harness.certificates import STORE_PASSWORD, Certificates
from tests.harness.secure_broker import MODULES, SCRAM, SecureBroker, sasl_settings, secure_broker
from tests.harness.token_endpoint import Answer, TokenEndpoint
from tests.harness.token_issuer import TokenIssuer

USERS = {"ute": "ute-secret"}
SECONDS = 30.0
PREFIX = "listener.name.secure."
Settings = dict[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """A broker, who vouches for it, and who makes tokens."""

    broker: SecureBroker
    certificates: Certificates
    tokens: TokenIssuer
    folder: Path


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """SASL over TLS."""
    folder = tmp_path_factory.mktemp("named")
    certificates, tokens = Certificates(folder / "certificates"), TokenIssuer()
    settings = sasl_settings(USERS, "OAUTHBEARER") | certificates.settings(prefix=PREFIX)
    place = Place(
        secure_broker(folder / "broker", settings | tokens.settings(folder), "SASL_SSL"), certificates, tokens, folder
    )
    try:
        place.broker.add_users(USERS)
        yield place
    finally:
        place.broker.process.close()


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """TLS on both sides."""
    folder = tmp_path_factory.mktemp("certified")
    certificates = Certificates(folder / "certificates")
    certificates.issue("alice")
    certificates.issue("late", ended=True)
    settings = certificates.settings(client_auth="required", prefix=PREFIX)
    place = Place(secure_broker(folder / "broker", settings, "SSL"), certificates, TokenIssuer(), folder)
    yield place
    place.broker.process.close()


async def _asked(bootstrap: str, security: Security) -> MetadataResponse:
    client = await Client.connect(bootstrap, security=security)
    try:
        return await client.metadata([])
    finally:
        await client.close()


def by_asyncio(bootstrap: str, security: Security) -> MetadataResponse:
    return asyncio.run(_asked(bootstrap, security))


def by_sockets(bootstrap: str, security: Security) -> MetadataResponse:
    connection = BlockingConnection(addresses_in(bootstrap)[0], "tests", security, timeout_s=SECONDS)
    try:
        version = connection.version_for(MetadataRequest)
        connection.send(MetadataRequest(topics=[]), version)
        answer = connection.receive(schema_of(MetadataRequest).api_key, version)
    finally:
        connection.close()
    assert isinstance(answer, MetadataResponse)
    return answer


Asking = Callable[[str, Security], MetadataResponse]


@pytest.fixture(params=[by_asyncio, by_sockets])
def ask(request: pytest.FixtureRequest) -> Asking:
    """Either kind of connection, up to the answer to a request."""
    found: Asking = request.param
    return found


def trusting(place: Place) -> Settings:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(place.certificates.path("ca"))}


def knowing(mechanism: str, password: str = USERS["ute"]) -> Settings:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    line = f'{MODULES}.{module} required username="ute" password="{password}";'
    return {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": line}


def bearing(url: str, line: str = "") -> Settings:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required {line};",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_names_and_passwords_over_tls(named: Place, ask: Asking, mechanism: str) -> None:
    assert ask(named.broker.bootstrap, security_of(trusting(named) | knowing(mechanism))).brokers


def test_a_token_from_a_file(named: Place, ask: Asking, tmp_path: Path) -> None:
    """It is read anew for each connection: somebody keeps it fresh."""
    file = tmp_path / "token with a blank"
    security = security_of(trusting(named) | bearing(file.as_uri()))
    with pytest.raises(NotAuthenticated, match="cannot be read"):
        ask(named.broker.bootstrap, security)
    file.write_text(named.tokens.token("ute") + "\n")
    assert ask(named.broker.bootstrap, security).brokers
    file.write_text(TokenIssuer().token("ute"))
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        ask(named.broker.bootstrap, security)


@pytest.fixture
def endpoint() -> Iterator[Callable[[Sequence[Answer]], TokenEndpoint]]:
    made: list[TokenEndpoint] = []

    def make(answers: Sequence[Answer]) -> TokenEndpoint:
        made.append(TokenEndpoint(answers))
        return made[-1]

    yield make
    for one in made:
        one.close()


CLIENT = 'clientId="spark" clientSecret="a:secret" scope="kafka" extension_logicalCluster="lkc1"'


def test_a_token_from_an_endpoint_serves_all_connections(
    named: Place, ask: Asking, endpoint: Callable[..., TokenEndpoint]
) -> None:
    asked = endpoint([(200, {"access_token": named.tokens.token("ute"), "expires_in": 600})])
    security = security_of(trusting(named) | bearing(asked.url, CLIENT))
    for _ in range(2):
        assert ask(named.broker.bootstrap, security).brokers
    written = base64.b64encode(b"spark:a:secret").decode()
    assert asked.heard == [(f"Basic {written}", "grant_type=client_credentials&scope=kafka")]


@pytest.mark.parametrize(
    ("status", "answer", "kind", "words"),
    [
        (401, {"error": "invalid_client"}, NotAuthenticated, "gives no token: 401 .*invalid_client"),
        (302, {}, NotAuthenticated, "gives no token: 302"),
        (200, {"token": "x"}, NotAuthenticated, "without an access_token"),
        (200, {"access_token": "x\r\ny"}, NotAuthenticated, "is not a token"),
        (503, {"error": "later"}, OSError, "answers 503"),
    ],
)
def test_an_endpoint_that_gives_no_token(
    named: Place, endpoint: Callable[..., TokenEndpoint], status: int, answer: Any, kind: type[Exception], words: str
) -> None:
    """What may pass is an `OSError`: it is tried again."""
    asked = endpoint([(status, answer)])
    with pytest.raises(kind, match=words) as raised:
        by_sockets(named.broker.bootstrap, security_of(trusting(named) | bearing(asked.url, CLIENT)))
    assert "a:secret" not in str(raised.value)


def test_a_token_is_got_anew_when_most_of_its_life_is_over(endpoint: Callable[..., TokenEndpoint]) -> None:
    asked = endpoint([(200, {"access_token": "first"}), (200, {"access_token": "second", "expires_in": 600})])
    security = security_of(bearing(asked.url, CLIENT) | {"security.protocol": "SASL_PLAINTEXT"})
    assert [security.token() for _ in range(3)] == ["first", "second", "second"]


# What goes wrong.


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_wrong_password(named: Place, ask: Asking, mechanism: str) -> None:
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        ask(named.broker.bootstrap, security_of(trusting(named) | knowing(mechanism, "guessed")))


def test_a_broker_that_nobody_trusted_vouches_for(named: Place, ask: Asking, tmp_path: Path) -> None:
    other = Certificates(tmp_path, name="another authority")
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(other.path("ca"))}
    for trust in (settings, {}):
        with pytest.raises(NotSecured, match=r"is not trusted: .*certificate.*ssl\.truststore\.location"):
            ask(named.broker.bootstrap, security_of(knowing("PLAIN") | trust))


def test_a_broker_by_a_name_that_its_certificate_does_not_have(named: Place, ask: Asking) -> None:
    """127.0.0.2 leads to the same broker, but its certificate does not say so."""
    port = named.broker.bootstrap.rpartition(":")[2]
    listening = socket.create_server(("127.0.0.2", 0))
    forwarder = threading.Thread(target=_forward, args=(listening, int(port)), daemon=True)
    forwarder.start()
    elsewhere = f"127.0.0.2:{listening.getsockname()[1]}"
    settings = trusting(named) | knowing("PLAIN")
    with pytest.raises(NotSecured, match=r"127\.0\.0\.2.*mismatch.*ssl\.endpoint\.identification\.algorithm"):
        ask(elsewhere, security_of(settings))
    assert ask(elsewhere, security_of(settings | {"ssl.endpoint.identification.algorithm": ""})).brokers
    listening.close()


def _forward(listening: socket.socket, port: int) -> None:
    """Each connection to a port of this machine, until the listening socket is closed."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            target.close()

    while True:
        try:
            one, _address = listening.accept()
        except OSError:
            return
        other = socket.create_connection(("127.0.0.1", port))
        for pair in ((one, other), (other, one)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


def test_a_brokers_certificate_that_has_run_out(tmp_path: Path, ask: Asking) -> None:
    certificates = Certificates(tmp_path / "certificates")
    certificates.issue("server", hosts=("localhost", "127.0.0.1"), ended=True)
    broker = secure_broker(tmp_path / "broker", certificates.settings(prefix=PREFIX), "SSL")
    try:
        place = Place(broker, certificates, TokenIssuer(), tmp_path)
        with pytest.raises(NotSecured, match="certificate has expired"):
            ask(broker.bootstrap, security_of(trusting(place) | {"security.protocol": "SSL"}))
    finally:
        broker.process.close()


def test_certificates_of_ones_own(certified: Place, ask: Asking) -> None:
    assert ask(certified.broker.bootstrap, security_of(trusting(certified) | showing(certified, "alice"))).brokers
    for nobody in ({"security.protocol": "SSL"}, showing(certified, "late")):
        with pytest.raises(NotSecured, match=r"refuses this client's TLS: .*(certificate|unknown|expired)"):
            ask(certified.broker.bootstrap, security_of(trusting(certified) | nobody))


def showing(place: Place, name: str) -> Settings:
    path = str(place.certificates.path(name))
    return {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": path}


def inline(place: Place) -> Settings:
    """As one writes them into a properties file, on one line each."""
    own = place.certificates.path("alice").read_text()
    key, certificate = own.split("-----END PRIVATE KEY-----")
    said = {
        "ssl.keystore.key": key + "-----END PRIVATE KEY-----",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.truststore.certificates": place.certificates.path("ca").read_text(),
    }
    types = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    return types | {name: " ".join(text.split()) for name, text in said.items()}


def pkcs12_stores(place: Place) -> Settings:
    return place.certificates.pkcs12_of_a_client("alice")


def jks_stores(place: Place) -> Settings:
    """As `keytool` makes them where it is told to; the key has a password of its own."""
    keytool = shutil.which("keytool")
    if keytool is None:
        pytest.skip("no keytool: it comes with Java")
    said = place.certificates.pkcs12_of_a_client("alice")
    made: Settings = {"ssl.key.password": "key-secret"}
    for store in ("keystore", "truststore"):
        path = place.folder / f"{store}.jks"
        path.unlink(missing_ok=True)
        source = ["-srckeystore", said[f"ssl.{store}.location"], "-srcstoretype", "PKCS12"]
        passwords = ["-srcstorepass", STORE_PASSWORD, "-deststorepass", "jks-secret"]
        of_keys = ["-srcalias", "alice", "-destkeypass", "key-secret"] if store == "keystore" else []
        command = [keytool, "-importkeystore", "-noprompt", *source, *passwords, *of_keys]
        subprocess.run([*command, "-destkeystore", str(path), "-deststoretype", "JKS"], check=True, capture_output=True)
        made |= {f"ssl.{store}.location": str(path), f"ssl.{store}.password": "jks-secret"}
    return made


@pytest.mark.parametrize("stores", [inline, pkcs12_stores, jks_stores])
def test_stores_in_every_form(certified: Place, ask: Asking, stores: Callable[[Place], Settings]) -> None:
    given = {"security.protocol": "SSL"} | stores(certified)
    assert ask(certified.broker.bootstrap, security_of(given)).brokers
    for old in ("TLSv1.2", "TLSv1.3"):
        assert ask(certified.broker.bootstrap, security_of(given | {"ssl.enabled.protocols": old})).brokers


# Listeners that hang up without a word.


def test_a_client_in_the_open_hears_what_a_listener_wants(named: Place, certified: Place, tmp_path: Path) -> None:
    async def reason(bootstrap: str, security: Security) -> str | None:
        return await hung_up_because(*addresses_in(bootstrap)[0], security)

    with pytest.raises((ConnectionLost, OSError)):
        by_asyncio(named.broker.bootstrap, PLAINTEXT)
    for place in (named, certified):
        assert "speaks TLS: security.protocol is SSL or SASL_SSL" in str(
            asyncio.run(reason(place.broker.bootstrap, PLAINTEXT))
        )
    over_tls = security_of(trusting(named) | {"security.protocol": "SSL"})
    wanted = asyncio.run(reason(named.broker.bootstrap, over_tls))
    assert wanted is not None and "wants to know who the client is, by" in wanted and "SASL_SSL there" in wanted
    assert "does not speak TLS" in str(asyncio.run(reason(named.broker.open_bootstrap, over_tls)))
    assert asyncio.run(reason(named.broker.open_bootstrap, PLAINTEXT)) is None


def test_a_listener_that_wants_names_says_which_mechanisms_it_takes(tmp_path: Path) -> None:
    broker = secure_broker(tmp_path, sasl_settings(USERS), "SASL_PLAINTEXT")
    try:
        with pytest.raises((ConnectionLost, OSError)):
            by_asyncio(broker.bootstrap, PLAINTEXT)
        reason = asyncio.run(hung_up_because(*addresses_in(broker.bootstrap)[0], PLAINTEXT))
        assert reason is not None and "SCRAM-SHA-512" in reason and "sasl.jaas.config" in reason
        unknown = security_of(bearing("file:///nowhere") | {"security.protocol": "SASL_PLAINTEXT"})
        assert unknown.credentials is not None
        spoken = security_of(knowing("PLAIN") | {"security.protocol": "SASL_PLAINTEXT"})
        assert by_asyncio(broker.bootstrap, spoken).brokers
    finally:
        broker.process.close()


def test_a_session_that_ends_is_followed_by_another(tmp_path: Path) -> None:
    """The broker would end the connection (KIP-368); before that another takes its place, and no request fails."""
    sessions = {f"{PREFIX}connections.max.reauth.ms": "1000"}
    broker = secure_broker(tmp_path, sasl_settings(USERS) | sessions, "SASL_PLAINTEXT")
    security = security_of(knowing("PLAIN") | {"security.protocol": "SASL_PLAINTEXT"})

    async def asked_until_replaced() -> None:
        client = await Client.connect(broker.bootstrap, security=security)
        first = client.seed
        while client.seed is first:
            await client.metadata([])
        await first.wait_until_lost()
        await client.close()

    try:
        asyncio.run(asked_until_replaced())
        connection = BlockingConnection(addresses_in(broker.bootstrap)[0], "tests", security, timeout_s=SECONDS)
        while not connection.is_stale:
            connection.send(MetadataRequest(topics=[]), connection.version_for(MetadataRequest))
            connection.receive(schema_of(MetadataRequest).api_key, connection.version_for(MetadataRequest))
        connection.close()
    finally:
        broker.process.close()


def test_credentials_where_nobody_wants_them(tmp_path: Path, ask: Asking) -> None:
    process = server(tmp_path)
    try:
        named = security_of(knowing("PLAIN") | {"security.protocol": "SASL_PLAINTEXT"})
        with pytest.raises(KafkaError, match="ILLEGAL_SASL_STATE: the listener does not take SASL"):
            ask(process.start().bootstrap, named)
    finally:
        process.close()


def test_a_mechanism_that_the_listener_does_not_take(tmp_path: Path, ask: Asking) -> None:
    settings = sasl_settings(USERS) | {f"{PREFIX}sasl.enabled.mechanisms": "PLAIN"}
    broker = secure_broker(tmp_path, settings, "SASL_PLAINTEXT")
    try:
        named = security_of(knowing("SCRAM-SHA-256") | {"security.protocol": "SASL_PLAINTEXT"})
        with pytest.raises(KafkaError, match="SCRAM-SHA-256 is not among what the listener takes: PLAIN"):
            ask(broker.bootstrap, named)
    finally:
        broker.process.close()
