"""Which listener nodes use among each other, and how a node says on it who it is."""

import asyncio
from typing import cast

import pytest

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.peers.connections import PeerConnections
from broker.peers.listener import between_nodes
from broker.peers.port import PeerUnreachable
from broker.process.environment import Environment
from protocol.errors import ErrorCode
from protocol.messages.header import RequestHeader
from protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from protocol.sasl.scram import server_first
from tests.harness.loop import Scheduler
from tests.unit.peers.rig import Heard, MonotonicClock, Rig, play, reply, written

HANDSHAKE, AUTHENTICATE = 17, 36
MODULE = "org.apache.kafka.common.security"
PLAIN_LINE = f'{MODULE}.plain.PlainLoginModule required username="nodes" password="geheim" user_nodes="geheim";'
SCRAM_LINE = f'{MODULE}.scram.ScramLoginModule required username="nodes" password="geheim";'
GUARDED = {
    "listeners": "INSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.inside.plain.sasl.jaas.config": PLAIN_LINE,
    "listener.name.inside.scram-sha-256.sasl.jaas.config": SCRAM_LINE,
}
SCRAM = GUARDED | {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}
THREE = {
    "listeners": "OPEN://127.0.0.1:0,SHUT://127.0.0.1:0,ALSO://127.0.0.1:0",
    "listener.security.protocol.map": "OPEN:PLAINTEXT,SHUT:SSL,ALSO:SSL",
}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, "OPEN"),
        ({"inter.broker.listener.name": "also"}, "ALSO"),
        ({"security.inter.broker.protocol": "SSL"}, "SHUT"),
        ({"inter.broker.listener.name": "ALSO", "security.inter.broker.protocol": "PLAINTEXT"}, "ALSO"),
        ({"listener.security.protocol.map": "OPEN:SSL,SHUT:PLAINTEXT,ALSO:SSL"}, "SHUT"),
        ({"listener.security.protocol.map": "OPEN:SASL_SSL,SHUT:SSL,ALSO:SSL"}, "OPEN"),
    ],
)
def test_the_listener_between_nodes(said: dict[str, str], expected: str) -> None:
    assert between_nodes(BrokerConfig(THREE | said)) == expected


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (THREE | {"inter.broker.listener.name": "NONE"}, "inter.broker.listener.name: there is no listener called"),
        (THREE | {"security.inter.broker.protocol": "SASL_SSL"}, "there is no listener that speaks SASL_SSL"),
        (GUARDED | {"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "cannot say who they are by GSSAPI, but by PL"),
        (SCRAM | {"sasl.enabled.mechanisms": "PLAIN"}, "listener INSIDE does not take SCRAM-SHA-256"),
        (
            GUARDED | {"listener.name.inside.plain.sasl.jaas.config": PLAIN_LINE.replace("username", "user_x")},
            "listener.name.inside.plain.sasl.jaas.config: username and password are missing",
        ),
        (
            {name: text for name, text in SCRAM.items() if "scram-sha-256" not in name},
            "listener.name.inside.scram-sha-256.sasl.jaas.config: username and password are missing",
        ),
    ],
)
def test_settings_by_which_nodes_cannot_speak_are_refused_at_once(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        PeerConnections(dict, BrokerConfig(settings), cast(Environment, MonotonicClock(Scheduler())))
    assert "geheim" not in str(refused.value)


class Guarded:
    """A scripted node that has itself told who asks."""

    def __init__(self, *challenges: SaslAuthenticateResponse, takes: ErrorCode = ErrorCode.NONE) -> None:
        self.silent = False
        self._takes = takes
        self._challenges = challenges

    def answer(self, header: RequestHeader, heard: Heard) -> bytes | None:
        if header.request_api_key == HANDSHAKE:
            return written(header, SaslHandshakeResponse(error_code=self._takes, mechanisms=["PLAIN"]))
        if header.request_api_key == AUTHENTICATE:
            step = sum(one.request_api_key == AUTHENTICATE for one in heard.requests)
            return written(header, self._challenges[step - 1])
        return b"" if self.silent else reply(header, 5)


def test_a_node_says_who_it_is_before_it_asks() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, Guarded(SaslAuthenticateResponse(auth_bytes=b"")).answer)
        assert await asyncio.gather(*rig.asking(3)) == [5] * 3
        (connection,) = rig.connections
        assert [one.request_api_key for one in connection.requests] == [HANDSHAKE, AUTHENTICATE, 12, 12, 12]
        await asyncio.sleep(100_000)
        assert await rig.beat() == 5 and len(rig.connections) == 1, "this session has no end"

    play(story, GUARDED)


def test_before_a_session_ends_another_is_begun_and_the_old_one_answers_first() -> None:
    node = Guarded(SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=10_000))

    async def story(rig: Rig) -> None:
        rig.start(2, node.answer)
        assert await rig.beat() == 5
        await asyncio.sleep(8)
        assert await rig.beat() == 5 and len(rig.connections) == 1
        node.silent = True
        late = rig.asking()
        await asyncio.sleep(1)
        node.silent = False
        assert await rig.beat() == 5 and len(rig.connections) == 2
        first = rig.connections[0]
        assert not first.is_gone and not late[0].done()
        first.transport.write(reply(first.requests[-1], 6))
        assert await late[0] == 6
        rig.connections[1].transport.close()
        await asyncio.sleep(0.01)
        assert first.is_gone
        assert await rig.beat() == 5, "that the old one has ended is no reason to wait"

    play(story, GUARDED)


def test_who_waits_on_an_old_session_when_this_node_ends_is_told() -> None:
    node = Guarded(SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=10_000))

    async def story(rig: Rig) -> None:
        rig.start(2, node.answer)
        await rig.beat()
        node.silent = True
        late = rig.asking()
        await asyncio.sleep(9)
        late += rig.asking()
        await asyncio.sleep(1)
        assert len(rig.connections) == 2
        await rig.peers.close()
        told = await asyncio.gather(*late, return_exceptions=True)
        assert ["this node ends" in str(one) for one in told] == [True, True]

    play(story, GUARDED)


FIRST = SaslAuthenticateResponse(auth_bytes=b"r=someone else's,s=c2FsdA==,i=4096")
REFUSED = SaslAuthenticateResponse(
    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no, not you", auth_bytes=b""
)
OURS = "AAECAwQFBgcICQoLDA0ODxAR"
"""What the rig draws."""


def challenge(iterations: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=server_first(f"{OURS}more", b"salt", iterations))


@pytest.mark.parametrize(
    ("settings", "node", "told"),
    [
        (GUARDED, Guarded(takes=ErrorCode.UNSUPPORTED_SASL_MECHANISM), "does not take PLAIN"),
        (GUARDED, Guarded(REFUSED), "does not let this node in: no, not you"),
        (SCRAM, Guarded(SaslAuthenticateResponse(auth_bytes=b"?")), "does not speak SCRAM-SHA-256"),
        (SCRAM, Guarded(FIRST), "its challenge is not to be trusted"),
        (SCRAM, Guarded(challenge(1)), "its challenge is not to be trusted"),
        (SCRAM, Guarded(challenge(1_000_000)), "its challenge is not to be trusted"),
        (SCRAM, Guarded(challenge(4096), REFUSED), "does not let this node in: no, not you"),
        (
            SCRAM,
            Guarded(challenge(4096), SaslAuthenticateResponse(auth_bytes=b"v=bm90IGl0cyBzaWduYXR1cmU=")),
            "does not know the password itself",
        ),
    ],
)
def test_where_nodes_do_not_believe_one_another_nothing_is_asked_and_nobody_is_stormed(
    settings: dict[str, str], node: Guarded, told: str
) -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, node.answer)
        for _ in range(1000):
            with pytest.raises(PeerUnreachable, match=told) as refused:
                await rig.beat()
            assert "geheim" not in str(refused.value)
            await asyncio.sleep(0.001)
        assert 4 <= len(rig.connections) <= 6
        asked = {one.request_api_key for heard in rig.connections for one in heard.requests}
        assert asked <= {HANDSHAKE, AUTHENTICATE}

    play(story, settings)


def test_a_node_that_lets_this_one_in_and_answers_nothing_is_not_stormed() -> None:
    greeting = Guarded(SaslAuthenticateResponse(auth_bytes=b""))

    def answer(header: RequestHeader, heard: Heard) -> bytes | None:
        return greeting.answer(header, heard) if header.request_api_key in (HANDSHAKE, AUTHENTICATE) else None

    async def story(rig: Rig) -> None:
        rig.start(2, answer)
        for _ in range(1000):
            with pytest.raises(PeerUnreachable, match="closed the connection"):
                await rig.beat()
            await asyncio.sleep(0.001)
        assert 4 <= len(rig.connections) <= 6

    play(story, GUARDED)


def test_a_node_that_says_nothing_in_greeting_is_given_up() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda _, __: b"")
        with pytest.raises(PeerUnreachable, match="did not take a connection in 10 s"):
            await rig.beat()

    play(story, GUARDED)
