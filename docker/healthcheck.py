"""Healthy is who answers a Metadata request on its first open listener; where all of them are guarded, who accepts a
connection on its first. Exit status 0, or 1 and the reason."""

import os
import socket
import sys
from collections.abc import Mapping

from tallystick.client.blocking import BlockingClient
from tallystick.client.errors import KafkaError, ProtocolError

PATIENCE_S = 3.0


def listener(environment: Mapping[str, str]) -> tuple[int, bool]:
    """The port to look at, and whether it is open to everybody."""
    pairs = environment.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "").split(",")
    protocols = {name.strip(): protocol.strip() for name, _, protocol in (pair.partition(":") for pair in pairs)}
    ports: list[tuple[int, bool]] = []
    for one in environment.get("KAFKA_LISTENERS", "PLAINTEXT://:9092").split(","):
        name, _, address = one.strip().partition("://")
        ports.append((int(address.rpartition(":")[2]), protocols.get(name, name) == "PLAINTEXT"))
    return next((port for port in ports if port[1]), ports[0])


def main() -> int:
    port, is_open = listener(os.environ)
    try:
        if not is_open:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
            return 0
        with BlockingClient(f"127.0.0.1:{port}", client_id="healthcheck", patience_s=PATIENCE_S) as client:
            brokers = client.run(client.client.metadata([])).brokers
    except (OSError, KafkaError, ProtocolError) as problem:
        sys.stderr.write(f"unhealthy: {problem!r}\n")
        return 1
    return 0 if brokers else 1


if __name__ == "__main__":
    sys.exit(main())
