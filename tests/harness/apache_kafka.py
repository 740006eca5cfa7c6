"""A real Apache Kafka, one node, with the life of `BrokerProcess`: the oracle of client tests and the rival of
benchmarks.
"""

import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tallystick.process import BrokerFailed, BrokerProcess
from tests.harness import jars
from tests.harness.proxy import free_port

DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.partitions": "4",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}

LOGGING = """rootLogger.level=warn
rootLogger.appenderRef.stdout.ref=STDOUT
appender.stdout.type=Console
appender.stdout.name=STDOUT
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d %p %m (%c)%n
"""


def answers_api_versions(port: int) -> bool:
    """Whether a broker on this port answers the smallest request there is."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


class ForeignBroker(BrokerProcess):
    """A broker that is not ours, and writes no ready file: it serves when it answers."""

    title: str

    def _wait_until_ready(self, ready: Path) -> str:
        deadline = time.monotonic() + self.start_seconds
        while time.monotonic() < deadline:
            if answers_api_versions(self.port):
                return f"127.0.0.1:{self.port}"
            if not self.running:
                raise BrokerFailed(f"{self.title} ended before it served\n{self.log_end()}")
            time.sleep(0.02)
        self.kill()
        raise BrokerFailed(f"{self.title} did not serve within {self.start_seconds} s\n{self.log_end()}")


class ApacheKafka(ForeignBroker):
    """One KRaft node in a temporary folder. Needs `.jars/kafka` and a Java; `JarsMissing` says which is not there."""

    title = "Apache Kafka"

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        heap: str = "1g",
        port: int = 0,
        features: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(folder, port=port or free_port(), start_seconds=300)  # Seconds where nobody else computes.
        self._class_path = jars.class_path("kafka")
        self._heap = heap
        self._settings = DEFAULTS | dict(settings or {})
        self._features = dict(features or {})
        self._formatted = False
        self.controller_port = 0

    def _command(self, ready: Path) -> list[str]:
        if not self._formatted:
            self._format()
        java = [str(jars.java()), f"-Xms{self._heap}", f"-Xmx{self._heap}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        # Addresses of keys that its settings name are to be allowed once more.
        keys = [url for name, url in self._settings.items() if name.endswith("sasl.oauthbearer.jwks.endpoint.url")]
        java += [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}" for url in keys]
        return [*java, logging, "-cp", self._class_path, "kafka.Kafka", str(self.folder / "server.properties")]

    def _format(self) -> None:
        controller = self.controller_port = free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}"
        properties = {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": listeners,
            "log.dirs": str(self.data),
        } | self._settings
        shutil.rmtree(self.data, ignore_errors=True)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        server = self.folder / "server.properties"
        server.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        tool = [str(jars.java()), "-cp", self._class_path, "kafka.tools.StorageTool"]
        made = subprocess.run([*tool, "random-uuid"], capture_output=True, text=True, check=True)
        uuid = made.stdout.split()[-1]
        levels = [part for name, level in self._features.items() for part in ("--feature", f"{name}={level}")]
        command = [*tool, "format", "-t", uuid, "-c", str(server), *levels]
        subprocess.run(command, capture_output=True, text=True, check=True)
        self._formatted = True
