"""SASL over a connection of a node: bytes in, bytes out. And the settings of a listener."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from struct import pack
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo
from broker.api.dispatch import Dispatcher
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig, ConfigError
from broker.network.connection import Connection
from broker.process.environment import RealEnvironment
from broker.security.sasl.gate import Gate
from broker.security.sasl.listener import PLAIN_MODULE, UNSECURED_VALIDATOR, sasl_listeners
from coordinator.cluster.keys.config_types import ConfigSource
from protocol.errors import ErrorCode
from protocol.framing import LENGTH, read_response, request_parts
from protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.metadata import ApiVersionsRequest, MetadataRequest
from protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from protocol.schema import schema_of
from tests.unit.broker.doubles import FakeHost, FakeTransport, deliver
from tests.unit.cluster.cluster_rig import handle, with_node

LISTENER = {
    "listeners": "OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "OUTSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.outside.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_ute="geheim";',
    "connection.failed.authentication.delay.ms": "1",
}
VERSIONS = ApiVersionsRequest(client_software_name="x", client_software_version="1")
RIGHT, WRONG = b"\0ute\0geheim", b"\0ute\0wrong"


class Caller:
    """One client and its connection."""

    def __init__(self, node: Services, port: int = 4711, host: FakeHost | None = None) -> None:
        self.host = host or FakeHost()
        self.host.dispatcher = Dispatcher(node, load_handlers())
        self.now_ms = 0
        gate = Gate(node.sasl["OUTSIDE"], monotonic_ms=lambda: self.now_ms, wall_ms=node.environment.wall_ms)
        self.connection = Connection(self.host, ConnectionInfo(1, "OUTSIDE", "", 0, gate=gate))
        self.transport = FakeTransport(port)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    async def send(self, data: bytes) -> bytes:
        """What is answered, without its length; nothing, if nothing is."""
        del self.transport.written[:]
        deliver(self.connection, data)
        await self.work()
        return bytes(self.transport.written[4:])

    async def work(self) -> None:
        """Until nothing is under way."""
        while not all(task.done() for task in self.host.tasks):
            await asyncio.wait(self.host.tasks)
            await asyncio.sleep(0)  # their answers are written by callbacks

    async def ask(self, request: Any, version: int) -> Any:
        frame = await self.send(b"".join(request_parts(request, version, 7, "client")))
        return read_response(schema_of(type(request)).api_key, version, frame)[1] if frame else None

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    async def say(self, message: bytes, version: int = 2) -> Any:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=message), version)

    @property
    def principal(self) -> str:
        return self.connection.info.principal


def story(tell: Callable[[Services], Awaitable[None]], **settings: str) -> None:
    with_node(tell, settings=LISTENER | settings)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_greets_authenticates_and_asks(version: int) -> None:
    async def tell(node: Services) -> None:
        caller = Caller(node)
        assert (await caller.ask(VERSIONS, 4)).error_code == 0
        shaken = await caller.handshake()
        assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
        answer = await caller.say(RIGHT, version)
        assert (answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms) == (
            0,
            "",
            b"",
            0,
        )
        assert (caller.principal, caller.connection.info.gate) == ("User:ute", None)
        assert (await caller.ask(MetadataRequest(topics=[]), 12)).cluster_id == node.cluster_id
        again = await caller.handshake()
        assert (again.error_code, again.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        assert (await caller.say(RIGHT)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert not caller.transport.closed

    story(tell)


def test_version_0_of_the_handshake_is_followed_by_bare_messages() -> None:
    async def tell(node: Services) -> None:
        caller = Caller(node)
        assert (await caller.handshake(version=0)).error_code == 0
        assert await caller.send(LENGTH.pack(len(RIGHT)) + RIGHT) == b"" and caller.transport.written == bytes(4)
        assert caller.principal == "User:ute"
        assert await caller.ask(MetadataRequest(topics=[]), 12) is not None
        other = Caller(node)
        await other.handshake("SCRAM-SHA-256", version=0)
        first = b"n,,n=ute,r=abc"
        assert (await other.send(LENGTH.pack(len(first)) + first)).startswith(b"r=abc")
        final = b"c=biws,r=abc,p=" + base64.b64encode(bytes(32))
        assert await other.send(LENGTH.pack(len(final)) + final) == b""
        assert other.transport.closed and other.principal == "User:ANONYMOUS"

    story(tell)


def test_a_failure_is_answered_late_and_closes_the_connection() -> None:
    async def tell(node: Services) -> None:
        caller = Caller(node)
        await caller.handshake()
        answer = await caller.say(WRONG)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert caller.transport.closed and caller.principal == "User:ANONYMOUS"
        malformed = Caller(node)
        await malformed.handshake("SCRAM-SHA-256")
        assert (await malformed.say(b"x")).error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        )
        unknown = Caller(node)
        answer = await unknown.handshake("GSSAPI")
        assert (answer.error_code, answer.mechanisms) == (
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            ["PLAIN", "SCRAM-SHA-256"],
        )
        assert unknown.transport.closed
        assert node.sasl["OUTSIDE"].failures == {
            "PLAIN, wrong username or password": 1,
            "SCRAM-SHA-256, not a message of SCRAM: the message is not whole": 1,
            "a mechanism that is not enabled": 1,
        }

    story(tell)


@pytest.mark.parametrize("version", [0, 4])
def test_before_it_is_known_a_connection_gets_nothing_else(version: int) -> None:
    async def tell(node: Services) -> None:
        for before in range(3):
            caller = Caller(node)
            if before:
                assert await caller.ask(VERSIONS, version) is not None
            if before == 2:
                await caller.handshake()
            assert await caller.ask(MetadataRequest(topics=[]), 12) is None
            assert caller.transport.closed

    story(tell)


def test_frames_are_small_until_it_is_known() -> None:
    async def tell(node: Services) -> None:
        large = b"".join(request_parts(MetadataRequest(topics=[]), 12, 1, "x" * 600))
        caller = Caller(node)
        assert await caller.send(large) == b"" and caller.transport.closed
        caller = Caller(node)
        await caller.handshake()
        await caller.say(RIGHT)
        assert await caller.send(large) != b""

    story(tell, **{"listener.name.outside.sasl.server.max.receive.size": "500"})


def test_who_is_not_known_takes_no_memory_from_those_who_are() -> None:
    """Half requests are kept until their sender is given up; without an account anybody may send any number."""

    async def tell(node: Services) -> None:
        host = FakeHost(budget_bytes=10_000)
        half = pack(">i", 20_000) + bytes(11_000)
        strangers = [Caller(node, host=host) for _ in range(3)]
        await strangers[0].send(half)
        assert host.strangers.exhausted and not host.requests.used_bytes
        assert strangers[0].connection.stalls, "it is closed when it does not get on"
        known = Caller(node, host=host)
        await known.handshake()
        await known.say(RIGHT)
        await known.send(half[:9_000])
        assert host.requests.used_bytes == 9_000 - 4 and known.transport.reading
        assert not known.connection.stalls, "its memory is not short"
        for one in strangers:
            one.connection.connection_lost(None)
        assert not host.strangers.used_bytes
        known.connection.connection_lost(None)
        assert not host.requests.used_bytes

    story(tell)


def test_what_a_connection_holds_goes_with_it_when_it_is_known() -> None:
    """Its next request may have begun to come with the message that it is known by."""

    async def tell(node: Services) -> None:
        caller = Caller(node, host=(host := FakeHost()))
        await caller.handshake()
        login = b"".join(request_parts(SaslAuthenticateRequest(auth_bytes=RIGHT), 2, 7, None))
        await caller.send(login + pack(">i", 20_000) + bytes(11_000))
        assert (host.strangers.used_bytes, host.requests.used_bytes) == (0, 11_000)

    story(tell)


def test_a_session_that_has_ended_closes_the_connection_with_the_next_request() -> None:
    async def tell(node: Services) -> None:
        caller = Caller(node)
        await caller.handshake()
        assert (await caller.say(RIGHT)).session_lifetime_ms == 1
        assert caller.connection.info.gate is not None
        assert (await caller.say(RIGHT)).error_code == ErrorCode.ILLEGAL_SASL_STATE  # without a handshake
        caller.now_ms = 5000
        assert (await caller.handshake()).error_code == 0
        assert (await caller.say(RIGHT, 1)).session_lifetime_ms == 1
        caller.now_ms = 5002
        assert await caller.ask(MetadataRequest(topics=[]), 12) is None
        assert caller.transport.closed

    story(tell, **{"listener.name.outside.plain.connections.max.reauth.ms": "1"})


def test_a_connection_that_goes_away_leaves_nothing_behind() -> None:
    async def tell(node: Services) -> None:
        caller = Caller(node)
        await caller.handshake()
        deliver(caller.connection, b"".join(request_parts(SaslAuthenticateRequest(auth_bytes=WRONG), 2, 7, None)))
        caller.transport.written.clear()
        caller.connection.connection_lost(None)
        assert caller.connection.info.gate is None and caller.host.tasks
        await caller.work()
        assert not caller.transport.written

    story(tell)


def test_users_of_plain_change_while_the_broker_runs() -> None:
    async def tell(node: Services) -> None:
        key = "listener.name.outside.plain.sasl.jaas.config"

        async def set_to(line: str) -> Any:
            config = IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=0, value=line)
            broker = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=4, resource_name="1", configs=[config]
            )
            (answer,) = (
                await handle(node, IncrementalAlterConfigsRequest(resources=[broker], validate_only=False), 1)
            ).responses
            assert "hunter2" not in (answer.error_message or "")
            return answer.error_code

        assert await set_to(f'{PLAIN_MODULE} required user_uwe="hunter2"') == ErrorCode.INVALID_REQUEST
        assert await set_to(f'{PLAIN_MODULE} required user_uwe="x";') == 0
        for message, error in ((RIGHT, ErrorCode.SASL_AUTHENTICATION_FAILED), (b"\0uwe\0x", 0)):
            caller = Caller(node)
            await caller.handshake()
            assert (await caller.say(message)).error_code == error
        described = await handle(
            node,
            DescribeConfigsRequest(
                resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)],
                include_synonyms=True,
            ),
            4,
        )
        assert "geheim" not in repr(described) and "uwe" not in repr(described)
        (shown,) = (one for one in described.results[0].configs if one.name == key)
        assert (shown.value, shown.is_sensitive, shown.config_source) == (None, True, ConfigSource.DYNAMIC_BROKER)

    story(tell)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl.enabled.mechanisms": ""}, "would let nobody in"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "cannot speak GSSAPI"),
        ({"sasl.enabled.mechanisms": "plain"}, "cannot speak plain"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER,GSSAPI"}, "cannot speak GSSAPI"),
        ({"connection.failed.authentication.delay.ms": "600000"}, "before they are answered"),
        ({"listener.name.outside.plain.sasl.jaas.config": f"{PLAIN_MODULE}.Other required;"}, "PLAIN needs its users"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "jwks.endpoint.url is not set"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": ""},
            "jwks.endpoint.url is not set",
        ),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "http://issuer/keys"},
            "https: or a file:",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.outside.oauthbearer.sasl.server.callback.handler.class": "com.example.Any",
            },
            "com.example.Any is not known",
        ),
    ],
)
def test_settings_that_let_nobody_or_anybody_in_are_refused_at_the_start(settings: dict[str, str], why: str) -> None:
    environment = RealEnvironment(None)
    with pytest.raises(ConfigError, match=why):
        sasl_listeners(BrokerConfig(LISTENER | settings), environment, lambda mechanism, name: None)
    environment.close()


def test_a_login_module_that_cannot_be_read_is_told_without_its_passwords() -> None:
    with pytest.raises(ConfigError) as problem:
        BrokerConfig(LISTENER | {"sasl.jaas.config": f'{PLAIN_MODULE} required user_ute="hunter2"'})
    assert "semicolon" in str(problem.value) and "hunter2" not in str(problem.value)


def test_unsecured_tokens_are_believed_where_the_settings_ask_for_it_by_name() -> None:
    def token(**claims: object) -> bytes:
        written = repr(claims).replace("'", '"')
        parts = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in ('{"alg":"none"}', written)]
        return f"n,,\x01auth=Bearer {'.'.join(parts)}.\x01\x01".encode()

    async def tell(node: Services) -> None:
        caller = Caller(node)
        await caller.handshake("OAUTHBEARER")
        ends = node.environment.wall_ms() // 1000 + 100
        answer = await caller.say(token(sub="ute", exp=ends))
        assert answer.error_code == 0 and 90_000 < answer.session_lifetime_ms <= 100_000
        assert caller.principal == "User:ute"
        other = Caller(node)
        await other.handshake("OAUTHBEARER")
        answer = await other.say(token(sub="ute", exp=1))
        assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
        answer = await other.say(b"\x01")
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            '{"status":"invalid_token"}',
        )

    key = "listener.name.outside.oauthbearer.sasl.server.callback.handler.class"
    story(tell, **{"sasl.enabled.mechanisms": "OAUTHBEARER", key: UNSECURED_VALIDATOR})


def test_what_is_no_request_at_all_closes_the_connection() -> None:
    async def tell(node: Services) -> None:
        for junk in (b"\x16\x03\x01\x02\x00\x01", LENGTH.pack(4) + b"abcd", pack(">ihhih", 10, 17, 9, 1, -1), bytes(8)):
            caller = Caller(node)
            assert await caller.send(junk + bytes(600)) == b""
            assert caller.transport.closed

    story(tell, **{"sasl.server.max.receive.size": "500"})
