"""A member of a share group (KIP-932): heartbeats, records in a session, and something to say of each; now and then it
leaves, dies, or sleeps until others have what it had.

What it says of a record is noted when it is sent, and again when it is answered. What it has acquired and what is no
record it says to be a gap, as Java's client does.
"""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

from broker.partitions.share.states import AcknowledgeType
from protocol.errors import ErrorCode
from protocol.messages.share import acknowledge as acknowledging
from protocol.messages.share import fetch as fetching
from protocol.messages.share.groups import ShareGroupHeartbeatRequest
from protocol.records.batch import headers_in
from protocol.records.record import records_of
from tallystick.client.reading import joined
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import Handing, Place, Saying
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

GROUP = "sharers"
TOPIC = "a"
SESSION_MS = 600
"""Of the broker's setting."""
LOCK_MS = 1_000
"""The least that a group may set."""
MOST_DELIVERIES = 25
"""The most that a group may set: no record of a run is handed out so often."""
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
FINAL = -1
FOR_GOOD = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
"""With these nothing of what was said is kept."""
BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)

Part = tuple[bytes, int]


async def run(world: World, plan: ClientPlan) -> None:
    """Take part until it is time to finish."""
    member = Sharer(world, plan.name, plan.seed)
    while not world.closing:
        await member.step()
    await member.leave()
    member.close()


class Sharer:
    """See the head of this file."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        self._world = world
        self._random = Random(seed)
        self._session = Session(world, name)
        self._name = name
        self._lives = 0
        self._begin()

    def _begin(self) -> None:
        """As a new process."""
        self._lives += 1
        self.member_id = f"{self._name}-{self._lives}"
        self._epoch = 0
        self._assigned: set[Part] = set()
        self._forget_session()

    def _forget_session(self) -> None:
        self._session_epoch = 0
        self._wanted: set[Part] = set()
        self._held: dict[Part, dict[int, Handing]] = {}

    # -- what it does ----------------------------------------------------------------------------------------

    async def step(self) -> None:
        """A heartbeat now and then, a fetch, and something to say."""
        random = self._random
        if not self._epoch or random.random() < 0.3:
            await self._beat()
        if self._assigned:
            await self.fetch(self._draw(0.5) if self._session_epoch else {})
        if self._session_epoch and random.random() < 0.7:
            await self.say(self._draw(0.8))
        if random.random() < 0.05:
            await self._go(random.choice(("leaves", "dies", "sleeps")))
        await asyncio.sleep(random.choice((0.002, 0.01, 0.05)))

    async def _go(self, how: str) -> None:
        self._world.hit(f"sharers.{how}")
        if how == "leaves":
            await self.leave()
            self._begin()
        elif how == "dies":
            self._session.drop()
            self._begin()
        else:
            await asyncio.sleep(self._random.choice((0.5, 1.5)) * LOCK_MS / 1000)

    async def leave(self) -> None:
        """With a last word, or without."""
        if self._session_epoch:
            await self.say(self._draw(0.5), final=True)
        if self._epoch > 0:
            try:
                await self._heartbeat(-1)
            except NoAnswer:
                return

    def _draw(self, part: float) -> dict[Part, dict[int, int]]:
        """What to say of some of what it holds."""
        random = self._random
        kinds = (ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT)
        chosen: dict[Part, dict[int, int]] = {}
        for where, held in sorted(self._held.items()):
            for offset, handing in sorted(held.items()):
                if random.random() < part:
                    kind = random.choice(kinds) if offset in handing.records else GAP
                    chosen.setdefault(where, {})[offset] = kind
        return chosen

    # -- heartbeats ------------------------------------------------------------------------------------------

    async def _heartbeat(self, epoch: int) -> Any:
        names = [TOPIC] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, subscribed_topic_names=names
        )
        return await self._session.ask(request, 1)

    async def _beat(self) -> None:
        try:
            answer = await self._heartbeat(self._epoch)
        except NoAnswer:
            self._epoch = 0  # what it has missed is told to one that comes
            self._forget_session()
            await asyncio.sleep(0.02)
            return
        code = answer.error_code
        self._world.history.note("share beat", self.member_id, self._epoch, answer.member_epoch, code)
        if code:
            self._world.hit(f"ShareGroupHeartbeat.error-{code}")
            if code in BEGIN_ANEW:
                self._begin()
            return
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self._assigned = {(bytes(topic.topic_id), index) for topic in topics for index in topic.partitions}
            if self._assigned:
                self._world.hit("sharers.assigned")

    # -- records ---------------------------------------------------------------------------------------------

    async def fetch(self, spoken: dict[Part, dict[int, int]], *, wait_ms: int = 50) -> int | None:
        """Say something, and be handed more: how many offsets; None where a partition cannot be read now."""
        request = self._fetch_request(spoken, wait_ms)
        sent_at, sayings = self._spoken("ShareFetch", spoken)
        answer = await self._heard("ShareFetch", request)
        if answer is None:
            return None
        self._wanted = set(self._assigned)
        count, failed = 0, False
        for topic in answer.responses:
            for one in topic.partitions:
                where = (bytes(topic.topic_id), one.partition_index)
                self._answered(sayings.get(where, ()), one.acknowledge_error_code)
                if one.error_code:
                    failed = True
                    self._world.hit(f"ShareFetch.partition-error-{ErrorCode(one.error_code).name}")
                count += self._take(where, one, sent_at)
        self._world.history.note("shared", self.member_id, count)
        return None if failed else count

    def _fetch_request(self, spoken: dict[Part, dict[int, int]], wait_ms: int) -> fetching.ShareFetchRequest:
        random = self._random
        added, removed = self._assigned - self._wanted, self._wanted - self._assigned
        named = sorted(added | spoken.keys()) if self._session_epoch else sorted(self._assigned)
        return fetching.ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=random.choice((1, 5, 50)),
            batch_size=random.choice((1, 500)),
            share_acquire_mode=random.choice((0, 1)),
            topics=[
                fetching.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                fetching.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=kinds
                                )
                                for first, last, kinds in runs(spoken.get((topic_id, index), {}))
                            ],
                        )
                    ],
                )
                for topic_id, index in named
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=one, partitions=[at]) for one, at in sorted(removed)
            ],
        )

    def _take(self, where: Part, found: fetching.PartitionData, sent_at: int) -> int:
        history, place, data = self._world.history, self._place(where), joined(found)  # type: ignore[arg-type]
        records = {
            record.offset
            for position, header in headers_in(data)
            if not header.is_control
            for record in records_of(data, position)
        }
        count = 0
        for one in found.acquired_records:
            offsets = range(one.first_offset, one.last_offset + 1)
            time = history.note("handed", self.member_id, place, one.first_offset, one.last_offset, one.delivery_count)
            mine = frozenset(records.intersection(offsets))
            handing = Handing(self.member_id, place, offsets, mine, one.delivery_count, sent_at, time)
            history.handings.append(handing)
            self._held.setdefault(where, {}).update(dict.fromkeys(offsets, handing))
            self._world.hit("sharers.handed" if one.delivery_count == 1 else "sharers.handed-again")
            count += len(offsets)
        return count

    # -- what it says ----------------------------------------------------------------------------------------

    async def say(self, spoken: dict[Part, dict[int, int]], *, final: bool = False) -> None:
        """ShareAcknowledge, now and then with a renewal of what it keeps."""
        renews = not final and self._random.random() < 0.3
        if renews:
            spoken = {where: of | dict.fromkeys(sorted(of)[-1:], RENEW) for where, of in spoken.items()}
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=FINAL if final else self._session_epoch,
            is_renew_ack=renews,
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=where[0],
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=where[1],
                            acknowledgement_batches=[
                                acknowledging.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=kinds
                                )
                                for first, last, kinds in runs(of)
                            ],
                        )
                    ],
                )
                for where, of in sorted(spoken.items())
            ],
        )
        _, sayings = self._spoken("ShareAcknowledge", spoken)
        answer = await self._heard("ShareAcknowledge", request)
        if final:
            self._forget_session()
        for topic in [] if answer is None else answer.responses:
            for one in topic.partitions:
                self._answered(sayings.get((bytes(topic.topic_id), one.partition_index), ()), one.error_code)

    def _spoken(self, how: str, spoken: dict[Part, dict[int, int]]) -> tuple[int, dict[Part, list[Saying]]]:
        """Note what is about to be said; it is nobody's any more, but what is renewed."""
        history = self._world.history
        sent_at = history.note(how, self.member_id, self._session_epoch, sorted(spoken.items()))
        sayings: dict[Part, list[Saying]] = {}
        for where, of in spoken.items():
            held = self._held[where]
            for offset, kind in sorted(of.items()):
                handing = held[offset] if kind == RENEW else held.pop(offset)
                sayings.setdefault(where, []).append(Saying(handing, offset, kind, sent_at))
        history.sayings += [one for of in sayings.values() for one in of]
        return sent_at, sayings

    def _answered(self, sayings: Iterable[Saying], code: int) -> None:
        time = self._world.history.note("said", self.member_id, code)
        for one in sayings:
            if code:
                one.refused = code in FOR_GOOD
                self._world.hit(f"sharers.refused-{ErrorCode(code).name}")
            else:
                one.kept_at = time
                self._world.hit(f"sharers.said-{AcknowledgeType(one.kind).name}")

    async def _heard(self, api: str, request: Any) -> Any | None:
        """The answer; None where there is none, or no session any more."""
        try:
            answer = await self._session.ask(request, 2)
        except NoAnswer:
            self._forget_session()
            await asyncio.sleep(0.02)
            return None
        code = answer.error_code
        self._world.history.note(f"{api} answered", self.member_id, code)
        if code:
            self._world.hit(f"{api}.error-{ErrorCode(code).name}")
            self._forget_session()
            await asyncio.sleep(0.01)
            return None
        self._session_epoch += 1
        return answer

    def _place(self, where: Part) -> Place:
        return self._world.topic_names[where[0]], where[1]

    # -- the end ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing more is asked."""
        self._session.drop()

    async def accept_all(self, partitions: int) -> bool:
        """One more heartbeat, and accept what there is. Whether there was nothing in any of so many partitions."""
        await self._beat()
        if len(self._assigned) < partitions:
            return False
        found = await self.fetch({}, wait_ms=0)
        spoken: dict[Part, dict[int, int]] = {
            where: {at: ACCEPT if at in handing.records else GAP for at, handing in held.items()}
            for where, held in self._held.items()
            if held
        }
        if spoken:
            await self.say(spoken)
        return found == 0


def runs(of: dict[int, int]) -> list[tuple[int, int, list[int]]]:
    """Offsets that follow each other, as batches with the type of each."""
    found: list[tuple[int, int, list[int]]] = []
    for offset, kind in sorted(of.items()):
        if found and found[-1][1] + 1 == offset:
            first, _, kinds = found.pop()
            found.append((first, offset, [*kinds, kind]))
        else:
            found.append((offset, offset, [kind]))
    return found
