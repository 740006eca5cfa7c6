"""The thin client says who it is, and trusts no server that only pretends to know it. And the settings of commands."""

import asyncio
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
from tallystick.cli.connecting import BadSettings, security_of
from tallystick.client import sasl
from tallystick.client.connection import Security
from tallystick.client.errors import KafkaError, NotAuthenticated
from tallystick.client.sasl import MOST_ITERATIONS, Credentials, authenticate, salt_and_salted

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
    with pytest.raises(KafkaError, match="the broker knows PLAIN"):
        asyncio.run(authenticate(Server(error=ErrorCode.UNSUPPORTED_SASL_MECHANISM), UTE))
    with pytest.raises(NotAuthenticated, match="does not speak OAUTHBEARER"):
        asyncio.run(authenticate(Server(), Credentials("OAUTHBEARER", "ute", "token")))
    assert "geheim" not in repr(UTE)


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ute" password="geheim";'


def test_settings_of_commands_are_those_of_kafkas_tools(tmp_path: Path) -> None:
    assert security_of({}) == Security()
    said = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}
    assert security_of(said) == Security(credentials=UTE)
    over_tls = security_of({"security.protocol": "SASL_SSL", "sasl.jaas.config": JAAS})
    assert over_tls.tls is not None and over_tls.tls.check_hostname and over_tls.credentials is not None
    lax = security_of({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""})
    assert lax.tls is not None and not lax.tls.check_hostname and lax.credentials is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"security.protocol": "TLS"}, "one of PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "no login module"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": "module required;"}, "username and password"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"}, "PEM alone"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere", "ssl.truststore.type": "PEM"}, "be read"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, str], why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        security_of(settings)


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
