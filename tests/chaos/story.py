"""One transaction, request by request, whose client is cut off in the middle by a broker that dies.

What the client does then is one of two things. It comes back: it repeats the request that was not answered, and goes
on. Or it never comes back, and somebody else takes its transactional id.
"""

import asyncio
from collections.abc import Awaitable, Callable

from protocol.errors import ErrorCode
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost
from tests.harness.transactional import TransactionalProducer
from tests.simulation.history import History, Place, Transaction, Write

TOPIC, GROUP = "t", "g"
PLACES = [(TOPIC, 0), (TOPIC, 1)]
PATIENCE_S = 30.0

Step = Callable[["Story"], Awaitable[None]]


class Story:
    """See the head of this file. `run` goes on where the last one was interrupted."""

    def __init__(
        self,
        history: History,
        transactional_id: str,
        *,
        transaction_version: int,
        comes_back: bool,
        commit: bool = True,
        offset: int = 1,
        timeout_ms: int = 800_000,
    ) -> None:
        self.history = history
        self.transactional_id = transactional_id
        self.transaction_version = transaction_version
        self.comes_back = comes_back
        self.commit = commit
        self.offset = offset
        self.timeout_ms = timeout_ms
        self.transaction: Transaction | None = None
        self.writes: dict[int, Write] = {}
        self.done = 0
        """How many steps were answered."""
        self._producer: TransactionalProducer | None = None
        self._identity: tuple[int, int, dict[Place, int], set[Place]] = (-1, -1, {}, set())

    @property
    def steps(self) -> list[Step]:
        return [Story._init, Story._write_first, Story._write_second, Story._send_offsets, Story._end]

    async def run(self, bootstrap: str, until: int | None = None) -> bool:
        """Take the steps that are left, or some of them; False if the broker died meanwhile."""
        try:
            client = await Client.connect(bootstrap)
        except (ConnectionLost, OSError):
            return False
        try:
            self._producer = self._again(client)
            for step in self.steps[self.done : until]:
                await asyncio.wait_for(step(self), PATIENCE_S)
                self.done += 1
        except (ConnectionLost, ConnectionError):
            return False
        finally:
            self._remember()
            await client.close()
        return True

    def _remember(self) -> None:
        """What outlives the connection."""
        if (known := self._producer) is not None:
            self._identity = (known.producer_id, known.producer_epoch, known.sequences, known.added)
        self._producer = None

    def _again(self, client: Client) -> TransactionalProducer:
        """The same producer behind a new connection."""
        made = TransactionalProducer(
            client,
            self.transactional_id,
            transaction_version=self.transaction_version,
            timeout_ms=self.timeout_ms,
        )
        made.producer_id, made.producer_epoch, made.sequences, made.added = self._identity
        return made

    @property
    def producer(self) -> TransactionalProducer:
        assert self._producer is not None
        return self._producer

    async def _init(self) -> None:
        await self.producer.init()
        producer = (self.producer.producer_id, self.producer.producer_epoch)
        self.transaction = self.history.begin(
            self.transactional_id, self.transactional_id, producer, self.transaction_version
        )
        self.producer.begin()

    async def _write_first(self) -> None:
        await self._write(0)

    async def _write_second(self) -> None:
        await self._write(1)

    async def _write(self, partition: int) -> None:
        write = self.writes.get(partition)
        if write is None:
            producer = (self.producer.producer_id, self.producer.producer_epoch)
            write = self.writes[partition] = self.history.write(
                self.transactional_id, (TOPIC, partition), producer=producer, sequence=0, transaction=self.transaction
            )
        answer = await self.producer.produce(TOPIC, partition, [b"%d" % write.number])
        write.acked, write.offset = True, answer.base_offset

    async def _send_offsets(self) -> None:
        assert self.transaction is not None
        self.transaction.offsets[GROUP, TOPIC, 0] = self.offset
        await self.producer.send_offsets(GROUP, {(TOPIC, 0): self.offset})

    async def _end(self) -> None:
        """A repeated EndTxn gets the same response (I06)."""
        assert self.transaction is not None
        if self.transaction.decision is None:
            self.transaction.decision = self.commit
            self.transaction.decided_at = self.history.note("decides", self.transactional_id, self.commit)
        epoch = self.producer.producer_epoch
        answer = await self.producer.end(committed=self.commit)
        assert answer.error_code == ErrorCode.NONE
        if self.transaction_version == 2:
            assert answer.producer_epoch == epoch + 1, "a repeated EndTxn bumps once"
        self.transaction.outcome = self.commit

    async def fence(self, bootstrap: str) -> None:
        """Somebody else takes the transactional id: what is open is aborted, what is decided is finished."""
        client = await Client.connect(bootstrap)
        successor = TransactionalProducer(client, self.transactional_id, transaction_version=self.transaction_version)
        await successor.init()
        await client.close()

    @property
    def is_visible(self) -> bool:
        """Whether its records are read by read_committed readers at the end."""
        shown = {number for final in self.history.final.values() for _, number in final.committed}
        return any(write.number in shown for write in self.writes.values())
