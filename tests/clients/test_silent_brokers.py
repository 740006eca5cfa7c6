"""What takes a connection and then says nothing: a machine that is gone, a process that stands still, no broker at all.
Nobody waits for it for ever.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from spark_connector.access import Access
from spark_connector.connections import cluster
from spark_connector.errors import BrokerUnreachable
from spark_connector.source.lookups import Lookups
from spark_connector.source.settings import settings_of
from tallystick.client import client, connection
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost
from tallystick.client.security import PLAINTEXT, Security
from tests.harness.broker import NODE_COUNT, server
from tests.harness.confluent import make_topic

SOON_S = 0.2


@pytest.fixture
def silent() -> Iterator[str]:
    """The system takes connections for it; nobody reads them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def answered(bootstrap: str, security: Security = PLAINTEXT) -> int:
    asking = await Client.connect(bootstrap, security=security)
    brokers = (await asking.metadata([])).brokers
    await asking.close()
    return len(brokers)


def test_a_listener_that_says_nothing_is_no_broker(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_GREETING_S", SOON_S)
    with pytest.raises(ConnectionLost, match=f"{silent} does not answer"):
        asyncio.run(answered(silent))


def test_a_listener_that_says_nothing_speaks_no_tls(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_SETUP_S", SOON_S)
    with pytest.raises(ConnectionLost, match=f"{silent} does not answer$"):
        asyncio.run(answered(silent, Security(tls=ssl.create_default_context())))


def test_a_broker_that_stands_still_loses_its_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later requests would wait behind those that it has not answered."""
    broker = server(tmp_path)

    async def cut_off() -> None:
        asking = await Client.connect(broker.bootstrap)
        broker.freeze()
        with pytest.raises(ConnectionLost, match="no answer within"):
            await asking.in_time(asking.metadata([]))
        await asking.seed.wait_until_lost()

    try:
        broker.start()
        monkeypatch.setattr(client, "REQUEST_TIMEOUT_S", SOON_S)
        asyncio.run(cut_off())
        broker.thaw()
    finally:
        broker.close()


def test_the_next_bootstrap_server_is_asked(silent: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_GREETING_S", 2.0)
    assert asyncio.run(answered(f"{silent},{bootstrap}")) == NODE_COUNT


def test_a_query_waits_for_as_long_as_its_option_says(silent: str) -> None:
    with pytest.raises(BrokerUnreachable, match=f"connecting to {silent}: no answer within {SOON_S} s"):
        cluster(Access(silent, "tests"), patience_s=SOON_S)
    source = {"kafka.bootstrap.servers": silent, "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "200"}
    with pytest.raises(BrokerUnreachable, match=f"connecting to {silent}: no answer within {SOON_S} s"):
        Lookups(settings_of(source)).latest([("t", 0)])


def test_a_source_gives_up_a_broker_that_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was answered before, so its connection is there."""
    broker = server(tmp_path)
    try:
        bootstrap = broker.start().bootstrap
        topic = make_topic(bootstrap, "stands-still")
        source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafkaConsumer.pollTimeoutMs": "3000"}
        lookups = Lookups(settings_of(source))
        assert lookups.latest([(topic, 0)]) == {(topic, 0): 0}
        monkeypatch.setattr(client, "REQUEST_TIMEOUT_S", SOON_S)
        broker.freeze()
        with pytest.raises(BrokerUnreachable, match="no answer within"):
            lookups.latest([(topic, 0)])
        with pytest.raises(BrokerUnreachable, match="no answer within"):
            lookups.leader((topic, 0))
        broker.thaw()
    finally:
        broker.close()
