"""The broker that client tests talk to.

`TALLYSTICK_TEST_BROKER=apache-kafka` puts a real Apache Kafka in our place in every test, which proves that a test
is a right test. `TALLYSTICK_TEST_NODES=memory`, or `postgresql`, puts a node of three there (`node_of_three`), which
proves that neither clients nor tests need to have all of a cluster behind one address.
`TALLYSTICK_TEST_BOOTSTRAP=host:port` points at a broker that runs already; tests that kill it or read its files skip
then.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.node_of_three import COUNT, NodeInMemory, NodeOverPostgresql
from tests.harness.proxy import CuttingProxy, free_port

EXTERNAL = os.environ.get("TALLYSTICK_TEST_BOOTSTRAP", "")
KAFKA = os.environ.get("TALLYSTICK_TEST_BROKER", "") == "apache-kafka"
NODES = os.environ.get("TALLYSTICK_TEST_NODES", "")
NODE_COUNT = COUNT if NODES else 1

TEST_SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "num.partitions": "4",
}
"""What tests want otherwise than by default: sessions, locks and transactions that time out soon."""


@dataclass(slots=True)
class Target:
    """Where a test finds its broker, and the process behind it if it is ours to stop."""

    bootstrap: str
    process: BrokerProcess | None

    def own_process(self) -> BrokerProcess:
        if self.process is None:
            pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
        return self.process


def server(
    folder: Path, *, durability: str = "fsync", advertised_port: int = 0, more: dict[str, str] | None = None
) -> BrokerProcess:
    """A broker with the test settings, not started yet."""
    settings = TEST_SETTINGS | (more or {})
    advertised = f"PLAINTEXT://127.0.0.1:{advertised_port}"
    if KAFKA:
        forced = {"log.flush.interval.messages": "1"} if durability == "fsync" else {}
        named = {"advertised.listeners": advertised} if advertised_port else {}
        return ApacheKafka(folder, settings=settings | forced | named, heap="512m")
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    named_option = ["--advertised-listeners", advertised] if advertised_port else []
    if advertised_port and NODES:
        pytest.skip("there is one proxy, and there are three nodes")
    # Over a database there is none but its own.
    asked = [] if NODES == "postgresql" else ["--durability", durability]
    return own(folder, [*asked, *options, *named_option])


def own(folder: Path, options: Sequence[str], *, listeners: str = "", advertised: str = "") -> BrokerProcess:
    """Ours with these options, not started yet. Listeners have ports, behind which are those of further nodes; so have
    the addresses that clients are told."""
    if NODES == "postgresql":
        return NodeOverPostgresql(folder, options=options, listeners=listeners, advertised=advertised)
    named = [*(["--listeners", listeners] if listeners else []), *options]
    named += ["--advertised-listeners", advertised] if advertised else []
    return NodeInMemory(folder, options=named) if NODES else BrokerProcess(folder, options=named)


def server_behind_proxy(folder: Path) -> tuple[BrokerProcess, CuttingProxy]:
    """A broker that advertises the proxy's address; neither is started yet."""
    port = free_port()
    broker = server(folder, advertised_port=port)
    return broker, CuttingProxy(port, lambda: broker.port)


def story_name(node_name: str) -> str:
    """A topic or group name from a test's name."""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", node_name).strip("-")[:150]
