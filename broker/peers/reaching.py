"""Whether the other nodes are reached where they say they are: each is asked something when it comes, until it answers.

Clients may reach an address that nodes do not, and the other way round. Without this the first transaction that crosses
nodes would find out, and its producer would be told nothing but to try again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from broker.peers.port import PeerUnreachable, Place
from broker.process.logging import EventLog

PAUSE_S = 1.0

_log = EventLog("peers")


class Reaching:
    """That of the node `own_id`. `ask` puts a question to a node, whose failures it tells the log of; it raises
    `PeerUnreachable`."""

    def __init__(
        self, own_id: int, places: Callable[[], Mapping[int, Place]], ask: Callable[[int], Awaitable[object]]
    ) -> None:
        self._own_id = own_id
        self._places = places
        self._ask = ask
        self._known: dict[int, Place] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Nodes may have come or gone."""
        places = self._places()
        for node_id, place in list(self._known.items()):
            if places.get(node_id) != place:
                del self._known[node_id]
                if node_id in self._asking:
                    self._asking[node_id].cancel()
        for node_id, place in places.items():
            if node_id != self._own_id and node_id not in self._known:
                self._known[node_id] = place
                self._look_for_same(node_id, place, places)
                self._asking[node_id] = asyncio.get_running_loop().create_task(self._until_it_answers(node_id))

    async def close(self) -> None:
        """Nobody is asked any more."""
        self._known.clear()
        if asking := list(self._asking.values()):
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)

    def _look_for_same(self, node_id: int, place: Place, places: Mapping[int, Place]) -> None:
        """One that is asked at the address of another answers like any."""
        address = (place.address.host, place.address.port)
        for other_id, other in places.items():
            if other_id != node_id and (other.address.host, other.address.port) == address:
                _log.warning("two nodes advertise one address", node=node_id, other=other_id, address=place.address)

    async def _until_it_answers(self, node_id: int) -> None:
        task = asyncio.current_task()
        try:
            while not await self._answers(node_id):
                await asyncio.sleep(PAUSE_S)
        finally:
            if self._asking.get(node_id) is task:
                del self._asking[node_id]

    async def _answers(self, node_id: int) -> bool:
        try:
            await self._ask(node_id)
        except PeerUnreachable:
            return False
        return True
