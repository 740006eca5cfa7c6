"""What a handler knows of the client that sent the request."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from broker.journal.peers import Peer
from broker.process.logging import Passing
from broker.security.quotas.charge import Charge
from broker.security.sasl.gate import Gate


@dataclass(slots=True)
class ConnectionInfo:
    """One connection, from accept to close. The client's software is known after ApiVersions (KIP-511)."""

    connection_id: int
    listener: str
    peer_host: str
    peer_port: int
    principal: str = "User:ANONYMOUS"
    software_name: str = "unknown"
    software_version: str = "unknown"
    sends_files: bool = False
    """Whether answers may hold what is still in files (`File.read_to_send`)."""
    descriptor: int = -1
    """The number of its socket; -1 where it has none."""
    client_id_bytes: bytes = b""
    client_id: str = ""
    """The client id of its latest request, as it came and as text."""
    mute: Callable[[int], None] | None = None
    """Has its connection not be read from for so many milliseconds; None where it is gone."""
    is_lost: bool = False
    """Its client is gone; what is still done for it must leave nothing that waits for its close."""
    gate: Gate | None = None
    """What it may not pass before it is authenticated, or when its session ends; None where there is no such thing."""
    peer: Peer | None = None
    """What the journal calls it, under the client id of its latest request that was noted."""

    @property
    def told(self) -> dict[str, Any]:
        """What a line of the log says of it."""
        return {"peer": Passing(f"{self.peer_host}:{self.peer_port}", self.peer_host), "listener": self.listener}


@dataclass(init=False, slots=True)
class RequestContext:
    """One request: who, through which listener, in which version."""

    connection: Final[ConnectionInfo]
    api_key: Final[int]
    api_version: Final[int]
    correlation_id: Final[int]
    client_id: Final[str | None]
    charge: Final[Charge | None]
    """What the request uses of quotas; None where there are none."""

    def __init__(
        self,
        connection: ConnectionInfo,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        charge: Charge | None = None,
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.charge = charge

    def charged(self, charge: Charge) -> "RequestContext":
        return RequestContext(
            self.connection, self.api_key, self.api_version, self.correlation_id, self.client_id, charge
        )
