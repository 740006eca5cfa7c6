"""Batches of an idempotent producer. At most five are unanswered; after any trouble what is unanswered is waited for,
and all that was not acknowledged is sent again, in order, with the sequences it had.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from protocol.records.record import NewRecord, build_batch
from tests.harness.retriable import PASSES_BY_ITSELF
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import History, Place, Write
from tests.simulation.world import World

RETRIABLE = PASSES_BY_ITSELF | {ErrorCode.CONCURRENT_TRANSACTIONS}
IN_FLIGHT = 5
TOPIC_IDS_SINCE = 13


@dataclass(slots=True)
class Batch:
    """Some records for one partition, as they are sent, however often."""

    place: Place
    writes: list[Write]
    data: bytes
    attempts: int = 0
    code: int = 0
    """The error of its last attempt; 0 also where there was no response."""
    turned_away: bool = False
    """It got a retriable error."""

    def on_the_way(self, now_s: float, *, sent: bool) -> None:
        for write in self.writes:
            write.seen_on_the_way(now_s, sent=sent)

    def take(self, result: PartitionProduceResponse, history: History) -> bool:
        """What the broker says of it; whether it is acknowledged."""
        self.code = result.error_code
        self.turned_away |= self.code in RETRIABLE
        for delta, write in enumerate(self.writes):
            if result.error_code:
                write.refused = result.error_code
                continue
            write.acked = True
            write.offset = result.base_offset + delta if result.base_offset >= 0 else None
        return not result.error_code

    def promised(self, result: PartitionProduceResponse, history: History) -> None:
        """What is said of another delivery of it."""
        for delta, write in enumerate(self.writes if not result.error_code else ()):
            offset = result.base_offset + delta if result.base_offset >= 0 else None
            namesakes = write.place[0] in history.forgotten  # the other delivery may have gone to one of them
            if None not in (write.offset, offset) and write.offset != offset and not namesakes:
                history.violation(
                    f"record {write.number} was acknowledged at {write.offset} and at {offset}", of_promise=True
                )
            write.acked = True
            write.offset = offset if write.offset is None else write.offset


class Refused(Exception):
    """The broker refused a batch for good."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(ErrorCode(batch.code).name)
        self.batch = batch
        self.code = batch.code


def encode_batch(writes: list[Write], *, now_ms: int, transactional: bool, base_sequence: int) -> bytes:
    first = writes[0]
    return build_batch(
        [_record_of(write, now_ms) for write in writes],
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def _record_of(write: Write, now_ms: int) -> NewRecord:
    """Its value is its number; a tombstone has no value, and the number stands beside it."""
    number = b"%d" % write.number
    if write.tombstone:
        return NewRecord(key=write.key, value=None, timestamp_ms=now_ms, headers=(("number", number),))
    return NewRecord(key=write.key, value=number + b" " * write.padding, timestamp_ms=now_ms)


def now_ms(world: World) -> int:
    """What a client takes for the time: its own clock is right."""
    return clients_ms(world.scheduler.now)


def clients_ms(when_s: float) -> int:
    """What clients took for the time then."""
    return 1_700_000_000_000 + int((when_s - 1000) * 1000)


@dataclass(slots=True)
class Sender:
    """See the head of this file."""

    session: Session
    version: int
    transactional_id: str | None = None
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    in_flight: int = IN_FLIGHT
    give_up_s: float = 1e9
    """How long the same batch is tried before `NoAnswer` is raised."""
    again: float = 0.0
    """How often the network may deliver a batch once more."""

    async def send(self, batches: list[Batch]) -> None:
        """Until all are acknowledged. Raises `Refused`; what was not acknowledged by then may still be in the log."""
        todo = deque(batches)
        flying: deque[tuple[Batch, asyncio.Future[Any] | None]] = deque()
        deadline = self.session.world.scheduler.now + self.give_up_s
        pause = 0.005
        repeated = ahead = 0
        """How many are sent once more, and how many behind the first of those are acknowledged: all of them count for
        what may be in flight, for brokers remember so many batches of a producer."""
        while todo or flying:
            most = max(1, self.in_flight - ahead)
            while todo and len(flying) < most and not (flying and self._is_cut_off(flying[-1][1])):
                batch = todo.popleft()
                flying.append((batch, await self._begin(batch)))
            batch, answer = flying.popleft()
            if await self._settle(batch, answer):
                repeated = max(0, repeated - 1)
                ahead = ahead if repeated else 0
                continue
            again = [batch]
            for later, late_answer in flying:
                if not await self._settle(later, late_answer):
                    again.append(later)
            ahead += len(flying) + 1 - len(again)
            repeated = len(again)
            flying.clear()
            # A later batch is refused because an earlier one is missing: only the error of the earliest is meaningful.
            if batch.code and batch.code not in RETRIABLE:
                raise Refused(batch)
            if self.session.world.scheduler.now > deadline:
                raise NoAnswer("tried for too long")
            todo.extendleft(reversed(again))
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.1)

    def _is_cut_off(self, last: "asyncio.Future[Any] | None") -> bool:
        """Whether the last batch did not even get off, or its connection is gone: nothing may be sent behind it, for
        over a new connection it would be there first."""
        return last is None or not self.session.is_connected

    async def _begin(self, batch: Batch) -> "asyncio.Future[Any] | None":
        topic, partition = batch.place
        data = PartitionProduceData(index=partition, records=batch.data)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(name=topic, topic_id=self.topic_ids.get(topic, bytes(16)), partition_data=[data])
            ],
        )
        if self.version >= TOPIC_IDS_SINCE:
            for write in batch.writes:
                write.topic_ids.add(self.topic_ids.get(topic, bytes(16)))
        batch.attempts += 1
        if batch.attempts == 2:
            self.session.world.hit("produce.retried")
        world = self.session.world

        def repeated(sent: bool) -> None:
            batch.on_the_way(world.scheduler.now, sent=sent)

        def promised(answer: Any) -> None:
            result = answer.responses[0].partition_responses[0]
            world.history.note("produced again", batch.place, batch.writes[0].number, result.error_code,
                               result.base_offset)  # fmt: skip
            batch.promised(result, world.history)

        batch.on_the_way(world.scheduler.now, sent=True)
        try:
            return await self.session.begin(
                request, self.version, again=self.again, repeated=repeated, promised=promised
            )
        except NoAnswer:
            return None

    async def _settle(self, batch: Batch, answer: "asyncio.Future[Any] | None") -> bool:
        """Wait for one answer; whether the batch is acknowledged."""
        batch.code = 0
        if answer is None:
            return False
        try:
            response = await self.session.finish(answer)
        except NoAnswer:
            return False
        finally:
            batch.on_the_way(self.session.world.scheduler.now, sent=False)
        result = response.responses[0].partition_responses[0]
        history = self.session.world.history
        history.note("produced", self.session.name, batch.place, batch.writes[0].number, result.error_code,
                     result.base_offset)  # fmt: skip
        if result.error_code:
            self.session.world.hit(f"produce.error-{result.error_code}")
        return batch.take(result, history)
