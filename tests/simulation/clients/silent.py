"""Clients that use something, are silent for long, and come back: offsets of a group, a producer's sequences.

Each knows by the broker's clock when it last used what it used, and so whether the broker must remember it, must have
forgotten it, or may do either. Those with transactions: `silent_transactions`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from protocol.messages.transactions import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from tests.harness.environment import WallClock
from tests.simulation.clients.idempotent import new_identity
from tests.simulation.clients.member import Member
from tests.simulation.clients.sending import RETRIABLE, Batch, Refused, Sender, encode_batch, now_ms
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import Place
from tests.simulation.world import World

SLACK_MS = 3_000
"""What work that is due may wait for on its way: for the load of a coordinator, and for another alarm."""
LONG_MS = 600_000
"""Longer than any silence."""


@dataclass(slots=True)
class Used:
    """When something was last used: not before one time, not after another. Milliseconds of the broker's clock."""

    from_ms: int
    to_ms: int


class Silence:
    """What silent clients share. `lives` are those of `Faults`."""

    def __init__(
        self, world: World, clock: WallClock, lives: Sequence[tuple[bool, int]], settings: Mapping[str, str]
    ) -> None:
        self.world = world
        self.clock = clock
        self.settings = settings
        self._lives = lives
        self._first_life = len(lives)

    def setting(self, name: str) -> int:
        return int(self.settings[name])

    def recovered_ms(self) -> int:
        """Up to when a crash may have made producers young again: those of the tail of a log that nothing but the log
        tells of count as seen when it is opened. An orderly end writes their ages down for good."""
        found = 0
        for orderly, served_ms in self._lives[self._first_life :]:
            if orderly:
                break
            found = served_ms
        return found

    def remembers(self, used: Used, asked_ms: int, expiration_ms: int, interval_ms: int) -> bool | None:
        """Whether what was asked at a time and has just been answered must have been there: True; False where it must
        have been gone; None where both is right."""
        if self.clock.now_ms() - used.from_ms < expiration_ms:
            return True
        due_ms = max(used.to_ms + expiration_ms, self._lives[-1][1] if self._lives else 0)
        return False if asked_ms - due_ms > interval_ms + SLACK_MS else None

    def judge(self, what: str, kind: str, *, there: bool, wanted: bool | None) -> None:
        """What was found beside what must be."""
        self.world.history.note("remembered", what, there, wanted)
        if wanted is not None:
            self.world.hit(f"silence.{'kept' if wanted else 'forgot'}-{kind}")
        if wanted is not None and there != wanted:
            ill = "was forgotten too early" if wanted else "is remembered though its time is over"
            self.world.history.violation(f"{what} {ill}", of_promise=True)


class SilentClient:
    """See the head of this file."""

    def __init__(self, silence: Silence, random: Random, name: str) -> None:
        self.silence = silence
        self.world = silence.world
        self.random = random
        self.name = name
        self.session = Session(self.world, f"silent-{name}")

    async def begin(self) -> None:
        """Use something."""

    async def look(self) -> None:
        """Whether the broker remembers what it must, and no more."""

    async def come_back(self) -> None:
        """Use it again."""

    def wrong(self, text: str) -> None:
        self.world.history.violation(f"{self.name}: {text}", of_promise=True)

    async def until_told(self, ask: Callable[[], Any], codes: Callable[[Any], Sequence[int]]) -> Any:
        """The first answer without an error that passes by itself."""
        while True:
            try:
                answer = await ask()
            except NoAnswer:
                await asyncio.sleep(0.02)
                continue
            if not RETRIABLE.intersection(codes(answer)):
                return answer
            await asyncio.sleep(0.01)

    async def producers_of(self, place: Place) -> list[ProducerState]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=place[0], partition_indexes=[place[1]])])
        answer = await self.until_told(
            lambda: self.session.ask(request, 0), lambda found: [found.topics[0].partitions[0].error_code]
        )
        return list(answer.topics[0].partitions[0].active_producers)


class SilentOffsets(SilentClient):
    """Offsets of a group that never had members, whose member has left, or whose member stays: those stay, too."""

    def __init__(self, silence: Silence, random: Random) -> None:
        self._kind = random.choice(("alone", "left", "stays"))
        super().__init__(silence, random, f"group-{self._kind}")
        self._member = Member(self.world, self.session, self.name, [("a", 0)], LONG_MS)
        self._offset = random.randrange(1, 1000)
        self._used = Used(0, 0)

    async def begin(self) -> None:
        while self._kind != "alone" and await self._member.join() is None:
            pass
        from_ms = self.silence.clock.now_ms()
        await self._commit()
        if self._kind == "left":
            from_ms = self.silence.clock.now_ms()
            await self._leave()
        self._used = Used(from_ms, self.silence.clock.now_ms())

    async def _commit(self) -> None:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._offset, committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=self._member.generation,
            member_id=self._member.member_id,
            topics=[OffsetCommitRequestTopic(name="a", partitions=[partition])],
        )

        def codes(answer: Any) -> list[int]:
            return [answer.topics[0].partitions[0].error_code]

        found = codes(await self.until_told(lambda: self.session.ask(request, 8), codes))
        if found[0]:
            self.wrong(f"a commit was refused: {ErrorCode(found[0]).name}")

    async def look(self) -> None:
        asked_ms = self.silence.clock.now_ms()
        found = await committed_offset(self, self.name)
        interval_ms = self.silence.setting("offsets.retention.check.interval.ms")
        expiration_ms = 60_000 * self.silence.setting("offsets.retention.minutes")
        wanted = self.silence.remembers(self._used, asked_ms, expiration_ms, interval_ms)
        wanted = True if self._kind == "stays" else wanted
        self.silence.judge(self.name, "offsets", there=found >= 0, wanted=wanted)
        if found not in (-1, self._offset):
            self.wrong(f"{self._offset} was committed, and it stands at {found}")

    async def come_back(self) -> None:
        if self._kind == "left":
            self._member = Member(self.world, self.session, self.name, [("a", 0)], LONG_MS)
            while await self._member.join() is None:
                pass
        self._offset += 1
        await self._commit()
        if (found := await committed_offset(self, self.name)) != self._offset:
            self.wrong(f"{self._offset} was committed after the silence, and it stands at {found}")
        if self._kind != "alone":
            await self._leave()

    async def _leave(self) -> None:
        """Until it has: its session is longer than what comes after this."""
        await self.until_told(self._member.ask_to_leave, lambda answer: [answer.error_code])


async def committed_offset(client: SilentClient, group: str, *, stable: bool = False) -> int:
    """Where a group stands in partition 0 of a; -1 where it stands nowhere."""
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name="a", partition_indexes=[0])], require_stable=stable
    )
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT

    def codes(answer: Any) -> list[int]:
        found = [answer.error_code, *(topic.partitions[0].error_code for topic in answer.topics)]
        return [ErrorCode.NOT_COORDINATOR if code == unstable else code for code in found]

    answer = await client.until_told(lambda: client.session.ask(request, 7), codes)
    return int(answer.topics[0].partitions[0].committed_offset)


class SilentProducer(SilentClient):
    """An idempotent producer. Forgotten, it may go on anywhere; else a batch it repeats is known."""

    def __init__(self, silence: Silence, random: Random) -> None:
        super().__init__(silence, random, "producer")
        self._place = (random.choice("ab"), random.randrange(self.world.plan.partitions))
        self._sender = Sender(self.session, 12)
        self._producer = (-1, -1)
        self._sequence = 0
        self._last: Batch | None = None
        self._used = Used(0, 0)

    async def begin(self) -> None:
        self._producer = await new_identity(self.session)
        for _ in range(2):
            from_ms = self.silence.clock.now_ms()
            await self._send()
            self._used = Used(from_ms, self.silence.clock.now_ms())

    async def _send(self) -> None:
        base = self._sequence
        writes = [
            self.world.history.write(self.name, self._place, producer=self._producer, sequence=base + delta)
            for delta in range(2)
        ]
        self._sequence += len(writes)
        data = encode_batch(writes, now_ms=now_ms(self.world), transactional=False, base_sequence=base)
        self._last = Batch(self._place, writes, data)
        await self._sender.send([self._last])

    def _remembered(self, asked_ms: int) -> bool | None:
        expiration_ms = self.silence.setting("producer.id.expiration.ms")
        interval_ms = self.silence.setting("producer.id.expiration.check.interval.ms")
        used = Used(self._used.from_ms, max(self._used.to_ms, self.silence.recovered_ms()))
        return self.silence.remembers(used, asked_ms, expiration_ms, interval_ms)

    async def look(self) -> None:
        asked_ms = self.silence.clock.now_ms()
        found = [one for one in await self.producers_of(self._place) if one.producer_id == self._producer[0]]
        wanted = self._remembered(asked_ms)
        self.silence.judge(f"{self.name} {self._producer}", "producer", there=bool(found), wanted=wanted)
        if found and found[0].last_sequence != self._sequence - 1:
            self.wrong(f"its last sequence is {found[0].last_sequence}, not {self._sequence - 1}")

    async def come_back(self) -> None:
        assert self._last is not None
        wanted, before = self._remembered(self.silence.clock.now_ms()), self._last.writes[0].offset
        try:
            if wanted and self.silence.clock.now_ms() + SLACK_MS - self._used.from_ms < self.silence.setting(
                "producer.id.expiration.ms"
            ):
                await self._sender.send([self._last])
                if self._last.writes[0].offset != before:
                    self.wrong(f"a repeated batch was put at {self._last.writes[0].offset}, and at {before} before")
            elif wanted is False:
                self._sequence += 7
            await self._send()
        except Refused as refused:
            self.wrong(f"it was refused when it came back: {ErrorCode(refused.code).name}, remembered {wanted}")
