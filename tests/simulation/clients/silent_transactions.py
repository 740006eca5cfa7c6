"""Silent clients with a transactional id: one whose transactions are over, and one that leaves a transaction open."""

from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.transactions import DescribeTransactionsRequest
from tests.simulation.clients.producer import GIVE_UP_S, Abortable, Fatal, TransactionalClient
from tests.simulation.clients.silent import LONG_MS, Silence, SilentClient, Used, committed_offset
from tests.simulation.history import Place

OF_SEVERAL_S = 30.0
"""How long something is tried where all nodes may have ended, over a line that loses what it carries."""


class SilentTransactions(SilentClient):
    """What those with a transactional id share."""

    def __init__(self, silence: Silence, random: Random, name: str) -> None:
        super().__init__(silence, random, name)
        moves = any("features" in str(one.option("chores", "")) for one in self.world.plan.clients)
        version = 0 if moves else random.choice((0, 2))
        give_up_s = OF_SEVERAL_S if self.world.ports else GIVE_UP_S
        self.client = TransactionalClient(self.world, self.session, random, name, version, LONG_MS, give_up_s)

    async def described(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        answer = await self.until_told(
            lambda: self.session.ask(request, 0), lambda found: [found.transaction_states[0].error_code]
        )
        return answer.transaction_states[0]

    async def send(self) -> None:
        place = (self.random.choice("ab"), self.random.randrange(self.world.plan.partitions))
        await self.client.send([self.client.prepare(place, 2)])

    async def whole(self, what: str) -> None:
        """A transaction that must succeed."""
        try:
            self.client.begin()
            await self.send()
            await self.client.end(commit=True)
        except (Abortable, Fatal) as error:
            self.wrong(f"a transaction {what} was refused: {error}")


class SilentId(SilentTransactions):
    """A transactional id, used or only claimed, without an open transaction."""

    def __init__(self, silence: Silence, random: Random) -> None:
        super().__init__(silence, random, "silent-id")
        self._is_used = random.random() < 0.7
        self._used = Used(0, 0)
        self._producer_id = -1

    async def begin(self) -> None:
        from_ms = self.silence.clock.now_ms()
        await self.client.claim()
        self._producer_id = self.client.producer[0]
        if self._is_used:
            from_ms = self.silence.clock.now_ms()
            await self.whole("before the silence")
            state = ""
            while not state.startswith("Complete"):
                state = (await self.described()).transaction_state
        self._used = Used(from_ms, self.silence.clock.now_ms())

    def _remembered(self, asked_ms: int) -> bool | None:
        expiration_ms = self.silence.setting("transactional.id.expiration.ms")
        interval_ms = self.silence.setting("transaction.remove.expired.transaction.cleanup.interval.ms")
        return self.silence.remembers(self._used, asked_ms, expiration_ms, interval_ms)

    async def look(self) -> None:
        asked_ms = self.silence.clock.now_ms()
        found = await self.described()
        wanted = self._remembered(asked_ms)
        self.silence.judge(self.name, "id", there=not found.error_code, wanted=wanted)
        if not found.error_code and found.producer_id != self._producer_id:
            self.wrong(f"it belongs to producer {found.producer_id}, not to {self._producer_id}")

    async def come_back(self) -> None:
        wanted = self._remembered(self.silence.clock.now_ms())
        try:
            if wanted is False:
                await self._knock()
            await self.client.claim()
        except Fatal as fatal:
            self.wrong(f"it could not be claimed after the silence: {fatal}")
            return
        if wanted is False and self.client.producer[0] == self._producer_id:
            self.wrong(f"it was forgotten, and got producer {self._producer_id} again")
        await self.whole("after the silence")

    async def _knock(self) -> None:
        """With an identity that nobody knows any more (KAFKA-14880)."""
        self.client.begin()
        try:
            await self.send()
        except Fatal as fatal:
            if fatal.code != ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                self.wrong(f"with a forgotten identity it was told: {fatal}")
        except Abortable as error:
            self.wrong(f"with a forgotten identity it was told: {error}")
        else:
            self.wrong("with a forgotten identity it was let in")


class SilentTransaction(SilentTransactions):
    """An open transaction, with records and the offsets of a group: neither it nor its producer nor the offsets that it
    may still change are forgotten (I18, I33, I40)."""

    def __init__(self, silence: Silence, random: Random) -> None:
        super().__init__(silence, random, "silent-open")
        self._group = f"group-of-{self.name}"
        self._places: list[Place] = []
        self._staged = Used(0, 0)

    async def begin(self) -> None:
        client = self.client
        await client.claim()
        from_ms = self.silence.clock.now_ms()
        try:
            client.begin()
            await client.send_offsets(self._group, {("a", 0): 5})
            await client.end(commit=True)
            client.begin()
            await self.send()
            assert client.transaction is not None
            self._places = [write.place for write in client.transaction.writes]
            await client.send_offsets(self._group, {("a", 0): 7})
        except (Abortable, Fatal) as error:
            self.wrong(f"a transaction before the silence was refused: {error}")
        self._staged = Used(from_ms, self.silence.clock.now_ms())

    async def look(self) -> None:
        found = await self.described()
        is_open = not found.error_code and found.transaction_state == "Ongoing"
        self.silence.judge(self.name, "open", there=is_open, wanted=True)
        for place in self._places:
            known = [one for one in await self.producers_of(place) if one.producer_id == self.client.producer[0]]
            if not known or known[0].current_txn_start_offset < 0:
                self.wrong(f"{place} has forgotten its open transaction: {known}")
        if (offset := await committed_offset(self, self._group)) != 5:
            self.wrong(f"its group stands at {offset}, while 7 is pending behind 5")

    async def come_back(self) -> None:
        commit = self.random.random() < 0.7
        try:
            await self.send()
            await self.client.end(commit=commit)
        except (Abortable, Fatal) as error:
            self.wrong(f"it was refused after the silence: {error}")
            return
        offset = await committed_offset(self, self._group, stable=True)
        expiration_ms = 60_000 * self.silence.setting("offsets.retention.minutes")
        is_young = self.silence.clock.now_ms() - self._staged.from_ms < expiration_ms
        if offset not in ((7 if commit else 5), *(() if is_young else (-1,))):
            self.wrong(f"it ended with {commit}, and its group stands at {offset}")
