"""Healthy is who answers a Metadata request on its first listener. Exit status 0, or 1 and the reason."""

import os
import sys

from protocol.errors import ProtocolError
from protocol.messages.metadata import MetadataRequest
from tallystick.client.blocking import BlockingClient
from tallystick.client.errors import KafkaError


def address() -> str:
    """Where the broker listens, as seen from inside the container."""
    first = os.environ.get("KAFKA_LISTENERS", "PLAINTEXT://:9092").split(",")[0].split("://")[-1]
    return f"127.0.0.1:{first.rsplit(':', 1)[1]}"


def main() -> int:
    try:
        with BlockingClient(address(), client_id="healthcheck", patience_s=3.0) as client:
            brokers = client.ask(MetadataRequest(topics=[])).brokers
    except (OSError, KafkaError, ProtocolError) as problem:
        sys.stderr.write(f"unhealthy: {problem!r}\n")
        return 1
    return 0 if brokers else 1


if __name__ == "__main__":
    sys.exit(main())
