"""Batches into partitions that others write to as well: each round in turns that the driver has given.

As with any `Sender` batches wait in one queue per partition, a round takes the first of some queues, and the next
begins when all of them are acknowledged. Here a batch gets its sequence number with its turn, and the turn goes back
when the round is over: nobody keeps one while it waits for another, and so tasks never wait for each other in a circle.
"""

from collections.abc import Callable

from spark_connector.sink.turn_server import TurnsOfTask
from spark_connector.sink.turns import Place
from tallystick.client.client import Client
from tallystick.client.lease import Lease, Partition
from tallystick.client.sender import Queued, Sender

_MOST_BYTES = 3 << 20
"""Of a round: other tasks have their turns in the partitions that are left, and a broker of ours uses the buffers of
requests up to 4 MiB again."""


class TurnSender(Sender):
    """See the head of this file. `place_of` says what a partition is called when a turn in it is asked for."""

    def __init__(
        self,
        client: Client,
        lease: Lease,
        place_of: Callable[[Partition], Place],
        turns: TurnsOfTask,
        *,
        patience_s: float,
        room_bytes: int,
    ) -> None:
        super().__init__(client, lease, patience_s=patience_s, room_bytes=room_bytes)
        self._place_of = place_of
        self._turns = turns

    def _number(self, queued: Queued) -> None:
        """Not yet: see `_send_all`."""

    async def _send_all(self) -> None:
        back: dict[Place, int] = {}
        try:
            while self._waiting_bytes or back:
                firsts = self._firsts()
                begins = await self._turns.take(back, firsts)
                heads = [firsts[place] for place in begins]
                for queued, sequence in zip(heads, begins.values(), strict=True):
                    self._stamp(queued, sequence)
                if heads:
                    await self._write(heads)
                back = {place: firsts[place].records for place in begins}
                self._moved.set()
        finally:
            self._moved.set()

    async def _write(self, heads: list[Queued]) -> None:
        if not self.lease.implicit:
            await self._add(heads)
        await self._round(heads)
        for queued in heads:  # The next round begins with the others.
            rest = self._queues.pop(queued.where)
            if rest:
                self._queues[queued.where] = rest

    def _firsts(self) -> dict[Place, Queued]:
        """By place, the first batch of each queue, or of as many as a round has room for."""
        found: dict[Place, Queued] = {}
        size = 0
        for where, queue in self._queues.items():
            if size and size + len(queue[0].batch) > _MOST_BYTES:
                break
            size += len(queue[0].batch)
            found[self._place_of(where)] = queue[0]
        return found
