"""Conversations on a SASL listener, request by request: what a client is told, and when its connection is closed.

`TALLYSTICK_TEST_BROKER=apache-kafka` has them with Apache Kafka.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from struct import pack
from typing import Any

import pytest

from protocol.codec import decode
from protocol.errors import ErrorCode
from protocol.framing import LENGTH
from protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from protocol.sasl.scram import client_final, client_final_without_proof, read_server_first
from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost
from tests.harness.secure_broker import SecureBroker, sasl_settings, secure_broker

PASSWORDS = {"ute": "geheim", "uwe": "secret"}
RIGHT, OTHER, WRONG = b"\0ute\0geheim", b"\0uwe\0secret", b"\0ute\0wrong"
ENABLED = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
API_VERSIONS = 18
FIRST = b"n,,n=ute,r=fyko"
Telling = Callable[["Caller"], Awaitable[None]]


class Caller:
    """One connection that says what it is told to say."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.answered: asyncio.Future[bytes]

    async def ask(self, request: object, version: int) -> Any:
        """None where the connection is closed without an answer."""
        try:
            return await self.connection.ask(request, version)
        except ConnectionLost:
            return None

    async def versions(self, version: int = 3) -> Any:
        return await self.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), version)

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    async def say(self, message: bytes, version: int = 2) -> Any:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=message), version)

    async def frame(self, frame: bytes) -> None:
        """Say just this. What is answered is `answered`, without length and correlation id."""
        self.answered = asyncio.get_running_loop().create_future()
        self.connection._answer = lambda answer: self.answered.set_result(answer[4:])  # type: ignore[method-assign]
        self.connection.send_bytes(LENGTH.pack(len(frame)) + frame)

    async def metadata(self) -> Any:
        return await self.ask(MetadataRequest(topics=[]), 12)

    async def is_closed(self) -> bool:
        await asyncio.wait_for(self.connection.wait_until_lost(), 30)
        return True


def tell(broker: SecureBroker, story: Telling) -> None:
    async def told() -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        connection = await Connection.connect(host, int(port), negotiate=False)
        await story(Caller(connection))
        connection.abort()

    asyncio.run(told())


def started(folder: Any, more: dict[str, str]) -> Iterator[SecureBroker]:
    made = secure_broker(folder, sasl_settings(PASSWORDS) | more)
    made.add_users(PASSWORDS)
    yield made
    made.process.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    yield from started(tmp_path_factory.mktemp("conversations"), {})


@pytest.fixture(scope="module")
def of_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    sessions = {"listener.name.secure.plain.connections.max.reauth.ms": "4000"}
    yield from started(tmp_path_factory.mktemp("of-sessions"), sessions)


def test_a_client_is_let_in_and_then_sasl_is_out_of_place(broker: SecureBroker) -> None:
    async def story(caller: Caller) -> None:
        assert (await caller.versions()).error_code == 0
        shaken = await caller.handshake()
        assert (shaken.error_code, set(shaken.mechanisms)) == (0, ENABLED)
        answer = await caller.say(RIGHT)
        assert (answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms) == (
            0,
            "",
            b"",
            0,
        )
        assert (await caller.metadata()) is not None
        shaken = await caller.handshake()
        assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        answer = await caller.say(RIGHT)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == "SaslAuthenticate request received after successful authentication"
        assert (await caller.metadata()) is not None

    tell(broker, story)


@pytest.mark.parametrize("version", [0, 1])
def test_version_0_of_the_handshake_speaks_without_headers(broker: SecureBroker, version: int) -> None:
    async def story(caller: Caller) -> None:
        assert (await caller.handshake("SCRAM-SHA-256", 0)).error_code == 0
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        caller.connection._answer = answered.set_result  # type: ignore[method-assign]
        caller.connection.send_bytes(LENGTH.pack(len(FIRST)) + FIRST)
        nonce, _, iterations = read_server_first(await answered)
        assert nonce.startswith("fyko") and iterations == 4096
        final = client_final(client_final_without_proof(nonce), bytes(32))
        caller.connection.send_bytes(LENGTH.pack(len(final)) + final)
        assert await caller.is_closed()

    tell(broker, story)


@pytest.mark.parametrize("before", ["nothing", "versions", "handshake", "half"])
def test_anything_else_before_is_the_end(broker: SecureBroker, before: str) -> None:
    async def story(caller: Caller) -> None:
        if before == "versions":
            await caller.versions(0)
        if before in ("handshake", "half"):
            await caller.handshake("SCRAM-SHA-256")
        if before == "half":
            await caller.say(FIRST)
        answer = await caller.metadata()
        assert answer is None or before in ("handshake", "half")  # Kafka says ILLEGAL_SASL_STATE there
        assert await caller.is_closed()

    tell(broker, story)


@pytest.mark.parametrize("order", ["versions versions", "handshake versions", "handshake handshake", "say"])
def test_an_order_that_is_none_is_the_end(broker: SecureBroker, order: str) -> None:
    async def story(caller: Caller) -> None:
        steps = {"versions": caller.versions, "handshake": caller.handshake, "say": lambda: caller.say(RIGHT)}
        for step in order.split():
            await steps[step]()
        assert await caller.is_closed()

    tell(broker, story)


def test_versions_may_be_asked_again_if_they_were_not_known(broker: SecureBroker) -> None:
    async def story(caller: Caller) -> None:
        caller.connection.versions = {}
        answer = await caller.ask(ApiVersionsRequest(client_software_name="!", client_software_version="?"), 3)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (await caller.versions()).error_code == 0
        assert (await caller.handshake()).error_code == 0

    tell(broker, story)


def test_versions_in_a_version_that_nobody_knows_may_be_asked_again(broker: SecureBroker) -> None:
    async def story(caller: Caller) -> None:
        await caller.frame(pack(">hhihb", API_VERSIONS, 99, 1, -1, 0))
        answer = decode(ApiVersionsResponse, 0, await asyncio.wait_for(caller.answered, 30))[0]
        assert (answer.error_code, [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys]) == (
            ErrorCode.UNSUPPORTED_VERSION,
            [(API_VERSIONS, 0, 4)],
        )

    tell(broker, story)


FRAMES = {
    "a version of SaslHandshake that nobody knows": pack(">hhih", 17, 9, 1, -1) + b"\0\5PLAIN",
    "an API that nobody knows": pack(">hhih", 999, 0, 1, -1),
    "no header": b"\0\x12",
    "nothing": b"",
    "a mechanism that ends outside": pack(">hhih", 17, 1, 1, -1) + b"\0\xffPLAIN",
    "too large": bytes(600_000),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("shaken", [False, True])
def test_a_frame_that_is_none_is_the_end(broker: SecureBroker, frame: bytes, shaken: bool) -> None:
    async def story(caller: Caller) -> None:
        if shaken:
            await caller.handshake()
        await caller.frame(frame)
        assert await caller.is_closed()
        assert not caller.answered.done()

    tell(broker, story)


def test_a_mechanism_that_is_not_enabled(broker: SecureBroker) -> None:
    async def story(caller: Caller) -> None:
        answer = await caller.handshake("GSSAPI")
        assert (answer.error_code, set(answer.mechanisms)) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ENABLED)
        assert await caller.is_closed()

    tell(broker, story)


@pytest.mark.parametrize(
    ("mechanism", "messages", "told"),
    [
        ("PLAIN", [WRONG], "Authentication failed: Invalid username or password"),
        ("PLAIN", [b"\0nobody\0x"], "Authentication failed: Invalid username or password"),
        ("PLAIN", [b"\0\0x"], "Authentication failed: username not specified"),
        ("PLAIN", [b"\0ute\0"], "Authentication failed: password not specified"),
        (
            "PLAIN",
            [b"uwe" + RIGHT],
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        ("PLAIN", [b"nonsense"], "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("PLAIN", [bytes(9)], "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("SCRAM-SHA-256", [b"nonsense"], None),
        ("SCRAM-SHA-256", [FIRST, b"c=biws,r=fyko,p=AAAA"], None),
        ("SCRAM-SHA-512", [FIRST, b"nonsense"], None),
        (
            "SCRAM-SHA-512",
            [b"n,a=uwe,n=ute,r=fyko"],
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_is_said_of_failures(
    broker: SecureBroker, mechanism: str, messages: list[bytes], told: str | None, version: int
) -> None:
    async def story(caller: Caller) -> None:
        await caller.handshake(mechanism)
        for message in messages[:-1]:
            assert (await caller.say(message, version)).error_code == 0
        answer = await caller.say(messages[-1], version)
        invalid = (
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )
        assert answer.error_message == (told or invalid)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
        assert await caller.is_closed()

    tell(broker, story)


def test_a_session_is_told_begun_anew_and_ends(of_sessions: SecureBroker) -> None:
    async def story(caller: Caller) -> None:
        await caller.handshake()
        assert 3000 < (await caller.say(RIGHT)).session_lifetime_ms <= 4000
        shaken = await caller.handshake()
        assert (shaken.error_code, set(shaken.mechanisms)) == (0, ENABLED)
        assert 3000 < (await caller.say(RIGHT, 1)).session_lifetime_ms <= 4000
        shaken = await caller.handshake()  # within a second
        assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        while await caller.metadata() is not None:
            await asyncio.sleep(0.1)
        assert await caller.is_closed()

    tell(of_sessions, story)


def test_a_session_is_not_begun_anew_by_somebody_else(of_sessions: SecureBroker) -> None:
    async def story(caller: Caller) -> None:
        await caller.handshake()
        await caller.say(RIGHT)
        await caller.handshake()
        answer = await caller.say(OTHER)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Cannot change principals during re-authentication from User.ute: User.uwe"
        assert await caller.is_closed()

    tell(of_sessions, story)


@pytest.mark.parametrize("bare", [False, True])
def test_a_session_that_is_begun_anew_with_a_wrong_password_is_the_end(of_sessions: SecureBroker, bare: bool) -> None:
    async def story(caller: Caller) -> None:
        await caller.handshake()
        await caller.say(RIGHT)
        assert (await caller.handshake(version=int(not bare))).error_code == 0
        if bare:
            await caller.frame(WRONG)
        else:
            answer = await caller.say(WRONG)
            assert answer.error_message == "Authentication failed: Invalid username or password"
        assert await caller.is_closed()

    tell(of_sessions, story)


def test_another_request_while_a_session_is_begun_anew_is_the_end(of_sessions: SecureBroker) -> None:
    async def story(caller: Caller) -> None:
        await caller.handshake()
        await caller.say(RIGHT)
        await caller.handshake()
        answer = await caller.metadata()  # Kafka says ILLEGAL_SASL_STATE
        assert answer is None or (answer.topics, answer.brokers) == ([], [])
        assert await caller.is_closed()

    tell(of_sessions, story)


def test_nor_with_another_mechanism(of_sessions: SecureBroker) -> None:
    """Kafka closes the connection without a word in the second step; we say why."""

    async def story(caller: Caller) -> None:
        await caller.handshake()
        await caller.say(RIGHT)
        assert (await caller.handshake("SCRAM-SHA-256")).error_code == 0
        answer = await caller.say(FIRST)
        assert answer is None or answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await caller.is_closed()

    tell(of_sessions, story)
