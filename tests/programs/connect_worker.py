"""A distributed worker of Kafka Connect, and the REST API that it is spoken to with."""

import json
import urllib.error
import urllib.request

from tests.harness.confluent import wait_until
from tests.harness.proxy import free_port
from tests.programs.java_program import JavaProgram, JavaPrograms

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
SECONDS = 240.0
"""A group that lost its worker waits for the end of the session, and Connect for its own topics."""


def settings(bootstrap: str, port: int) -> dict[str, str]:
    """Sessions are short, and lost tasks are given out at once."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "workers",
        "listeners": f"http://127.0.0.1:{port}",
        **{f"{topic}.storage.topic": f"connect-{topic}" for topic in ("config", "offset", "status")},
        **{f"{topic}.storage.replication.factor": "1" for topic in ("config", "offset", "status")},
        "offset.storage.partitions": "3",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        "consumer.session.timeout.ms": "6000",
        "consumer.heartbeat.interval.ms": "500",
        "consumer.isolation.level": "read_committed",
    }


class Worker:
    """Keeps its port over restarts."""

    def __init__(self, programs: JavaPrograms, bootstrap: str, **more: str) -> None:
        self._port = free_port()
        told = settings(bootstrap, self._port) | {key.replace("__", "."): value for key, value in more.items()}
        path = programs.properties("worker.properties", told)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.program: JavaProgram = programs.program("worker", programs.class_path("connect"), main, path)

    def ask(self, method: str, path: str, body: dict[str, str] | None = None) -> object:
        """The answer, or None where there is none yet: it starts, or a rebalance is under way."""
        assert self.program.running, self.program.log_end()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            assert error.code in (404, 409, 500, 503), error.read()
            return None
        except OSError:
            return None

    def configure(self, connector: str, config: dict[str, str]) -> None:
        """Make a connector, as soon as the worker takes it."""
        wait_until(lambda: self.ask("PUT", f"connectors/{connector}/config", config), connector, seconds=SECONDS)

    def tasks(self, connector: str) -> list[str]:
        """The states of its tasks."""
        status = self.ask("GET", f"connectors/{connector}/status")
        return [task["state"] for task in status["tasks"]] if isinstance(status, dict) else []
