"""The thin client says who it is, and trusts no server that only pretends to know it. And the settings of commands."""

import asyncio
import base64
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from protocol.sasl.scram import (
    ScramMechanism,
    conversation_of,
    credential,
    read_client_final,
    read_client_first,
    salted_password,
    server_final,
    server_first,
    server_signature,
)
from tallystick.client import sasl
from tallystick.client.errors import KafkaError, NotAuthenticated
from tallystick.client.sasl import MOST_ITERATIONS, authenticate, salt_and_salted
from tallystick.client.security import Credentials, Security
from tallystick.client.security_settings import BadSettings, security_of
from tallystick.client.tokens import EndpointToken

UTE = Credentials("SCRAM-SHA-256", "ute", "geheim")


class Server:
    """A broker that answers as it likes."""

    def __init__(self, password: str = "geheim", iterations: int = 4096, nonce: str = "more", error: int = 0) -> None:
        self.password, self.iterations, self.nonce, self.error = password, iterations, nonce, error
        self.heard: list[bytes] = []
        self._first: tuple[bytes, bytes] | None = None

    async def ask(self, request: object, version: int | None = None) -> object:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(error_code=self.error, mechanisms=["PLAIN"])
        assert isinstance(request, SaslAuthenticateRequest)
        self.heard.append(request.auth_bytes)
        return SaslAuthenticateResponse(auth_bytes=self.answer(request.auth_bytes))

    def answer(self, message: bytes) -> bytes:
        if message.startswith(b"\0"):
            return b""
        if self._first is None:
            first = read_client_first(message)
            self._first = first.bare, server_first(first.nonce + self.nonce, b"salt", self.iterations)
            return self._first[1] if self.nonce != "forged" else server_first("forged", b"salt", self.iterations)
        salted = salted_password(ScramMechanism.SHA_256, self.password, b"salt", self.iterations)
        kept = credential(ScramMechanism.SHA_256, salted, b"salt", self.iterations)
        conversation = conversation_of(*self._first, read_client_final(message).without_proof)
        return server_final(server_signature(ScramMechanism.SHA_256, kept, conversation))


def test_client_and_server_know_each_other() -> None:
    asyncio.run(authenticate(Server(), UTE))
    plain = Server()
    asyncio.run(authenticate(plain, Credentials("PLAIN", "ute", "geheim")))
    assert plain.heard == [b"\0ute\0geheim"]


@pytest.mark.parametrize(
    ("server", "answers"),
    [
        (lambda: Server(password="other"), 2),
        (lambda: Server(iterations=1), 1),
        (lambda: Server(iterations=1 << 30), 1),
        (lambda: Server(nonce="forged"), 1),
    ],
)
def test_a_server_that_pretends_is_found_out(server: Callable[[], Server], answers: int) -> None:
    """One that asks for few iterations wants a proof that is easily searched for, and gets none."""
    pretender = server()
    with pytest.raises(NotAuthenticated):
        asyncio.run(authenticate(pretender, UTE))
    assert len(pretender.heard) == answers


def test_what_the_broker_refuses_is_told() -> None:
    with pytest.raises(KafkaError, match="is not among what the listener takes: PLAIN"):
        asyncio.run(authenticate(Server(error=ErrorCode.UNSUPPORTED_SASL_MECHANISM), UTE))
    with pytest.raises(NotAuthenticated, match="does not speak GSSAPI"):
        asyncio.run(authenticate(Server(), Credentials("GSSAPI", "ute", "ticket")))
    assert "geheim" not in repr(UTE)


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ute" password="geheim";'

NAMED = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
OVER_TLS = {"security.protocol": "SSL"}
BEARER = NAMED | {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "module required;"}


def test_settings_of_commands_are_those_of_kafkas_tools(tmp_path: Path) -> None:
    assert security_of({}) == Security()
    said = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}
    assert security_of(said) == Security(credentials=UTE)
    over_tls = security_of(said | {"security.protocol": "SASL_SSL"})
    assert over_tls.tls is not None and over_tls.tls.check_hostname and over_tls.credentials is not None
    lax = security_of(OVER_TLS | {"ssl.endpoint.identification.algorithm": ""})
    assert lax.tls is not None and not lax.tls.check_hostname and lax.credentials is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"security.protocol": "TLS"}, "one of PLAINTEXT"),
        (NAMED | {"sasl.mechanism": ""}, "Kafka's default, GSSAPI, is not spoken here, PLAIN, .* are"),
        (NAMED | {"sasl.mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM is not spoken here, PLAIN, .* are"),
        (NAMED | {"sasl.jaas.config": ""}, "no login module"),
        (NAMED | {"sasl.jaas.config": "module required;"}, "username and password"),
        (NAMED | {"sasl.login.callback.handler.class": "mine.Handler"}, "programs of one's own"),
        (BEARER | {"sasl.login.callback.handler.class": "mine.Handler"}, "programs of one's own"),
        (BEARER, "needs sasl.oauthbearer.token.endpoint.url"),
        (BEARER | {"sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "https://"),
        (BEARER | {"sasl.oauthbearer.token.endpoint.url": "https://x"}, "clientId and clientSecret"),
        (BEARER | {"sasl.oauthbearer.jwt.retriever.class": "x.JwtBearerJwtRetriever"}, "is one of Default"),
        (OVER_TLS | {"ssl.truststore.location": "trust.jks"}, "be read"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": __file__, "ssl.truststore.type": "PEM"},
            "certificate",
        ),
        (OVER_TLS | {"ssl.truststore.location": __file__}, "neither a JKS nor a PKCS12"),
        (OVER_TLS | {"ssl.truststore.type": "BCFKS"}, "BCFKS is not read here"),
        (OVER_TLS | {"ssl.keystore.key": "x", "ssl.keystore.type": "PEM"}, "wanted together"),
        (OVER_TLS | {"ssl.keystore.certificate.chain": "x"}, r"ssl\.keystore\.key is not"),
        (OVER_TLS | {"ssl.enabled.protocols": "SSLv3"}, "leave no version of TLS"),
        (OVER_TLS | {"ssl.truststore.location": "/nowhere", "ssl.truststore.type": "PEM"}, "be read"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, str], why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        security_of(settings)


def test_a_token_endpoint_that_is_away_is_named() -> None:
    """The error is met while a broker is connected to, and is not about that one."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/token"
        with pytest.raises(OSError, match=rf"the token endpoint {url} is not reached: .*refused"):
            EndpointToken(url, "spark", "secret").token()


def test_who_asks_for_far_too_many_iterations_does_not_wait_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says that they are too many; a hundred millions would take minutes here."""
    computed: list[int] = []

    def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        computed.append(iterations)
        return b""

    monkeypatch.setattr(sasl, "salted_password", salted)
    for iterations in (0, 8192, 100_000_000):
        salt_and_salted(ScramMechanism.SHA_256, "geheim", iterations)
    assert computed == [1, 8192, MOST_ITERATIONS]


def test_unsecured_tokens_are_for_a_first_try() -> None:
    """As Kafka's own clients make them where no endpoint is named (RFC 7515, A.5)."""
    line = 'module required unsecuredLoginStringClaim_sub="ute" unsecuredLoginNumberClaim_level="3";'
    token = security_of(BEARER | {"sasl.jaas.config": line}).token()
    assert token is not None
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"} and signature == ""
    assert (claims["sub"], claims["level"], claims["exp"] - claims["iat"]) == ("ute", 3, 3600)


def test_a_delegation_token_says_that_it_is_one() -> None:
    known = NAMED | {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS.replace(";", ' tokenauth="true";')}
    who = security_of(known).credentials
    assert who is not None
    server = Server()
    asyncio.run(authenticate(server, who))
    assert server.heard[0].endswith(b",tokenauth=true")


class Session(Server):
    """A server whose sessions last for so many ms."""

    async def ask(self, request: object, version: int | None = None) -> object:
        answer = await super().ask(request, version)
        if isinstance(answer, SaslAuthenticateResponse):
            answer.session_lifetime_ms = 600
        return answer


def test_how_long_a_session_lasts_is_told() -> None:
    assert asyncio.run(authenticate(Session(), Credentials("PLAIN", "ute", "geheim"))) == 600
    assert asyncio.run(authenticate(Session(), UTE)) == 600
