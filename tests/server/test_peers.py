"""A node asks another that is a real broker, through each kind of listener that nodes may use among each other."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import parse_address
from broker.peers.connections import PeerConnections
from broker.peers.port import PeerUnreachable, Place
from broker.process.environment import RealEnvironment
from protocol.errors import ErrorCode
from protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.harness.certificates import Certificates
from tests.harness.secure_broker import MODULES, SecureBroker, sasl_settings, secure_broker

NAME, PASSWORD = "nodes", "geheim, sehr"
GREETING = ApiVersionsRequest(client_software_name="tallystick", client_software_version="1")
MODULE = {"PLAIN": f"{MODULES}.plain.PlainLoginModule", "SCRAM": f"{MODULES}.scram.ScramLoginModule"}


def login(mechanism: str, *, name: str = NAME, password: str = PASSWORD) -> dict[str, str]:
    """What a node says to others, and PLAIN knows."""
    users = f' user_{NAME}="{PASSWORD}"' if mechanism == "PLAIN" else ""
    line = f'{MODULE[mechanism.partition("-")[0]]} required username="{name}" password="{password}"{users};'
    return {
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.secure.{mechanism.lower()}.sasl.jaas.config": line,
    }


def with_peers(
    broker: SecureBroker,
    settings: Mapping[str, str],
    story: Callable[[PeerConnections], Awaitable[None]],
    protocol: str,
    *,
    name: str = "SECURE",
) -> None:
    """Run a story on the loop that a node has; the broker is node 2."""
    address = broker.bootstrap if name == "SECURE" else broker.open_bootstrap
    said = dict(settings) | {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,SECURE:{protocol}",
        "inter.broker.listener.name": name,
    }

    async def run() -> None:
        environment = RealEnvironment(None)
        place = Place(parse_address(address, name), 1)
        peers = PeerConnections(lambda: {2: place}, BrokerConfig(said), environment)
        try:
            async with asyncio.timeout(60):
                await story(peers)
        finally:
            await peers.close()
            environment.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def serves(peers: PeerConnections) -> None:
    """Requests of old and of flexible versions, many at once; a topic is made or is there."""
    asked = [peers.ask(2, GREETING, version, ApiVersionsResponse) for version in (0, 2, 3, 4) * 5]
    assert {answer.error_code for answer in await asyncio.gather(*asked)} == {0}
    topic = CreatableTopic(name="made", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    made = await peers.ask(2, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7, CreateTopicsResponse)
    assert [one.error_code for one in made.topics] in ([ErrorCode.NONE], [ErrorCode.TOPIC_ALREADY_EXISTS])


async def refuses(peers: PeerConnections, told: str) -> None:
    with pytest.raises(PeerUnreachable, match=told):
        await peers.ask(2, GREETING, 3, ApiVersionsResponse)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_nodes_say_who_they_are(tmp_path: Path, mechanism: str) -> None:
    known = sasl_settings({NAME: PASSWORD})
    broker = secure_broker(tmp_path, known)
    try:
        broker.add_users({NAME: PASSWORD})
        with_peers(broker, known | login(mechanism), serves, "SASL_PLAINTEXT")
        wrong = known | login(mechanism, password="guessed")
        with_peers(broker, wrong, lambda peers: refuses(peers, "does not let this node in"), "SASL_PLAINTEXT")
        with_peers(broker, {}, serves, "SASL_PLAINTEXT", name="PLAINTEXT")
    finally:
        broker.process.close()


def test_nodes_show_one_another_their_certificates(tmp_path: Path) -> None:
    own, others = Certificates(tmp_path / "own"), Certificates(tmp_path / "others", name="another authority")
    prefix = "listener.name.secure."
    settings = own.settings(client_auth="required", prefix=prefix)
    broker = secure_broker(tmp_path, settings, "SSL")
    try:
        with_peers(broker, settings, serves, "SSL")
        strange = others.settings(prefix=prefix)
        with_peers(broker, strange, lambda peers: refuses(peers, "certificate verify failed"), "SSL")
        half = strange | {f"{prefix}ssl.truststore.location": str(own.path("ca"))}
        with_peers(broker, half, lambda peers: refuses(peers, "^node 2 "), "SSL")
        missing = settings | {f"{prefix}ssl.truststore.location": str(tmp_path / "none.pem")}
        with_peers(broker, missing, lambda peers: refuses(peers, "none.pem: No such file"), "SSL")
    finally:
        broker.process.close()


def test_a_certificate_has_to_name_the_node_unless_settings_say_otherwise(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    certificates.issue("server", hosts=("elsewhere.example",))
    prefix = "listener.name.secure."
    known = sasl_settings({NAME: PASSWORD}) | certificates.settings(prefix=prefix)
    broker = secure_broker(tmp_path, known, "SASL_SSL")
    try:
        settings = known | login("PLAIN")
        with_peers(broker, settings, lambda peers: refuses(peers, "IP address mismatch"), "SASL_SSL")
        lax = settings | {f"{prefix}ssl.endpoint.identification.algorithm": ""}
        with_peers(broker, lax, serves, "SASL_SSL")
    finally:
        broker.process.close()
