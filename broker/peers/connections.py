"""The connections of this node to others, wherever the cluster says that they are.

Requests on one connection wait for one another (`broker.network.connection`), so each matter has its own, as in Kafka:
a marker must not stand behind a change of the metadata that waits for a controller, nor behind an addition to a
transaction that waits for markers.
"""

import asyncio
from collections.abc import Callable, Mapping

from broker.config.broker_config import BrokerConfig
from broker.peers.complaints import Complaints
from broker.peers.connection import PeerConnection
from broker.peers.listener import client_id_of
from broker.peers.peer import Peer
from broker.peers.port import Peers, PeerUnreachable, Place, R
from broker.peers.reaching import Reaching
from broker.peers.way import Way
from broker.process.environment import Environment
from protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.offsets import ListOffsetsRequest
from protocol.messages.share.state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from protocol.messages.transactions import AddPartitionsToTxnRequest, WriteTxnMarkersRequest

CHANGES, MARKERS, TRANSACTIONS, SHARES = "changes", "markers", "transactions", "shares"
MATTERS: dict[type, str] = {
    WriteTxnMarkersRequest: MARKERS,
    AddPartitionsToTxnRequest: TRANSACTIONS,
    InitializeShareGroupStateRequest: SHARES,
    ReadShareGroupStateRequest: SHARES,
    WriteShareGroupStateRequest: SHARES,
    DeleteShareGroupStateRequest: SHARES,
    ReadShareGroupStateSummaryRequest: SHARES,
    ListOffsetsRequest: SHARES,
}
"""All others are changes of the metadata."""
GREETING, GREETING_VERSION = ApiVersionsRequest(client_software_name="", client_software_version=""), 0
"""A node that serves answers it, whoever asks."""


class PeerConnections(Peers):
    """`places` tells of all nodes that serve, and is asked each time: a node that is somewhere else, or has begun
    another life, is asked there, and who waits at the old place gets `PeerUnreachable`. Raises `ConfigError`."""

    def __init__(
        self, places: Callable[[], Mapping[int, Place]], config: BrokerConfig, environment: Environment
    ) -> None:
        self._way = Way(config, environment)
        self._places = places
        self._environment = environment
        self._client_id = client_id_of(config.node_id)
        self._patience_s = config.get_int("request.timeout.ms") / 1000
        self._peers: dict[tuple[int, str], Peer] = {}
        """By node and matter."""
        self._complaints: dict[int, Complaints] = {}
        self._reaching = Reaching(config.node_id, places, self._greet)
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def ask(self, node_id: int, request: object, version: int, response: type[R]) -> R:
        connection = await self._peer(node_id, MATTERS.get(type(request), CHANGES)).connection()
        return await connection.ask(request, version, response)

    def addresses_changed(self) -> None:
        for node_id, matter in list(self._peers):
            self._known(node_id, matter)
        if not self._closed:
            self._reaching.look()

    async def close(self) -> None:
        self._closed = True
        await self._reaching.close()
        for node_id, matter in list(self._peers):
            self._drop(node_id, matter, "is not asked any more: this node ends")
        if self._closing:
            await asyncio.wait(self._closing)

    def _peer(self, node_id: int, matter: str) -> Peer:
        """Raises `PeerUnreachable`."""
        if self._closed:
            raise PeerUnreachable(f"node {node_id} is not asked any more: this node ends")
        place, peer = self._known(node_id, matter)
        if place is None:
            raise PeerUnreachable(f"nobody knows where node {node_id} is")
        if peer is None:
            complaints = self._complaints.get(node_id)
            if complaints is None or complaints.place != place:
                complaints = self._complaints[node_id] = Complaints(node_id, place, self._environment)
            peer = Peer(node_id, place, self._way, self._environment, self._make, complaints)
            self._peers[node_id, matter] = peer
        return peer

    def _known(self, node_id: int, matter: str) -> tuple[Place | None, Peer | None]:
        """Where it is, and who is asked there already."""
        place, peer = self._places().get(node_id), self._peers.get((node_id, matter))
        if peer is None or peer.place == place:
            return place, peer
        if place is None:
            self._drop(node_id, matter, "has no address any more")
        else:
            same = place.address == peer.place.address
            self._drop(node_id, matter, "has begun another life" if same else "has another address now")
        return place, None

    def _drop(self, node_id: int, matter: str, reason: str) -> None:
        closing = asyncio.get_running_loop().create_task(self._peers.pop((node_id, matter)).close(reason))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _greet(self, node_id: int) -> None:
        await self.ask(node_id, GREETING, GREETING_VERSION, ApiVersionsResponse)

    def _make(self, name: str, on_end: Callable[[str], None]) -> PeerConnection:
        return PeerConnection(name, self._client_id, self._patience_s, on_end)
