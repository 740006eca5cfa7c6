"""What a node says of itself to the others, as the store keeps it: how it is reached, and where it stands."""

import json
from dataclasses import dataclass

from storage.shared.store import Incarnation


@dataclass(frozen=True, slots=True)
class About:
    """As it goes into the registration of a broker."""

    endpoints: tuple[tuple[str, str, int, int], ...]
    """(listener, host, port, number of its security protocol), as advertised to clients."""
    rack: str | None
    directory: bytes

    def to_bytes(self) -> bytes:
        said = {"endpoints": self.endpoints, "rack": self.rack, "directory": self.directory.hex()}
        return json.dumps(said).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "About":
        said = json.loads(data)
        endpoints = tuple((str(name), str(host), int(port), int(kind)) for name, host, port, kind in said["endpoints"])
        return cls(endpoints, said["rack"], bytes.fromhex(said["directory"]))


def incarnation_id(who: Incarnation) -> bytes:
    """What Kafka has a random id for: a life of a node."""
    return who.node_id.to_bytes(4, "big") + bytes(4) + who.number.to_bytes(8, "big")
