"""What the rest of the broker sees of other nodes: a question, and an answer or none."""

from typing import NamedTuple, Protocol, TypeVar

from broker.config.listeners import Endpoint

R = TypeVar("R")


class Place(NamedTuple):
    """Where a node is reached, in one of its lives: who is there after a restart may be on another machine, though the
    address has the same name."""

    address: Endpoint
    life: int


class PeerUnreachable(Exception):
    """The other node cannot be asked now, or did not answer in time: what was asked for may have been done."""


class Peers(Protocol):
    """The other nodes of this cluster."""

    async def ask(self, node_id: int, request: object, version: int, response: type[R]) -> R:
        """What another node answers to a request (a message of `protocol.messages`), decoded. Raises
        `PeerUnreachable`. A caller that is cancelled takes back nothing: the request may be on its way."""

    def addresses_changed(self) -> None:
        """Nodes have come or gone: whoever waits for one that is no more where it was gets `PeerUnreachable`."""

    async def close(self) -> None:
        """Whoever waits for an answer gets `PeerUnreachable`, and nobody is asked any more."""
