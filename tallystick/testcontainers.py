"""A broker in a container, for tests that use Testcontainers: `pip install 'tallystick[testcontainers]'`.

    with TallystickContainer() as broker:
        producer = Producer({"bootstrap.servers": broker.get_bootstrap_server()})

The port that an engine gives to a container is known once it is created and started, and has to be what clients are
told. So the broker is started with the name of a file and waits for it; the address is copied to there.
"""

from typing import Any, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy
from testcontainers.core.waiting_utils import WaitStrategy

IMAGE = "tallystick"
PORT, INTERNAL_PORT = 9092, 19092
ADVERTISED = "/tmp/advertised.listeners"  # noqa: S108  of the container, and nobody else is in it
READY = r"tallystick listens on"


class TallystickContainer(DockerContainer):
    """One broker. Programs on this machine connect to `get_bootstrap_server()`, other containers of its network to
    `get_network_bootstrap_server()`. An acknowledgement does not wait for the disk unless `durability` is `fsync`."""

    def __init__(self, image: str = IMAGE, *, durability: str = "page-cache", **options: Any) -> None:
        self._ready: WaitStrategy = LogMessageWaitStrategy(READY)
        super().__init__(image, **options)
        self.with_exposed_ports(PORT)
        self.with_env("KAFKA_LISTENERS", f"PLAINTEXT://0.0.0.0:{PORT},NETWORK://0.0.0.0:{INTERNAL_PORT}")
        self.with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "PLAINTEXT:PLAINTEXT,NETWORK:PLAINTEXT")
        self.with_env("KAFKA_TALLYSTICK_ADVERTISED_LISTENERS_FILE", ADVERTISED)
        self.with_setting("tallystick.durability", durability)

    def with_setting(self, name: str, value: str) -> Self:
        """A setting of the broker by Kafka's name, such as `log.retention.ms`."""
        variable = name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        self.with_env(f"KAFKA_{variable}", value)
        return self

    def waiting_for(self, strategy: WaitStrategy) -> Self:
        """What is waited for once the broker was told its address."""
        self._ready = strategy
        return self

    def start(self) -> Self:
        """Start it, tell it where it is reached, and wait until it serves."""
        super().start()
        told = f"PLAINTEXT://{self.get_bootstrap_server()},NETWORK://{self.get_network_bootstrap_server()}\n"
        self.copy_into_container(told.encode(), ADVERTISED)
        try:
            self._ready.wait_until_ready(self)
        except (RuntimeError, TimeoutError) as problem:
            problem.add_note(self.get_logs()[1].decode(errors="replace"))
            raise
        return self

    def get_bootstrap_server(self) -> str:
        """For programs on this machine."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(PORT)}"

    def get_network_bootstrap_server(self) -> str:
        """For other containers of its network, by the first of its aliases there."""
        name = self._network_aliases[0] if self._network_aliases else self.get_container_id()[:12]
        return f"{name}:{INTERNAL_PORT}"
