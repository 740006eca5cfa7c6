"""What a member of a share group has with one node that leads partitions: a share session, records that it was handed
there, and what it says of them.

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
from protocol.records.batch import headers_in
from protocol.records.record import records_of
from tallystick.client.reading import joined
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import Handing, Place, Saying
from tests.simulation.world import World

GROUP = "sharers"
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
FINAL = -1
FOR_GOOD = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
"""With these nothing of what was said is kept."""

Part = tuple[bytes, int]


class ShareSession:
    """See the head of this file. `node` is 0 where there is but one broker."""

    def __init__(self, world: World, session: Session, random: Random, member_id: str, node: int) -> None:
        self._world = world
        self._session = session
        self._random = random
        self.member_id = member_id
        self.node = node
        self._assigned: set[Part] = set()
        self.forget()

    def forget(self) -> None:
        """There is none any more: nothing that was handed out is its own."""
        self._session_epoch = 0
        self._wanted: set[Part] = set()
        self._held: dict[Part, dict[int, Handing]] = {}

    @property
    def is_open(self) -> bool:
        return self._session_epoch > 0

    def assign(self, parts: set[Part], lost: set[Part]) -> None:
        """What the member reads of this node from now on, and what others lead of what it reads: nothing of that which
        was handed out here is its own any more."""
        self._assigned = parts
        for one in lost:
            self._held.pop(one, None)

    @property
    def reads(self) -> int:
        """So many partitions."""
        return len(self._assigned)

    @property
    def held(self) -> dict[Part, dict[int, Handing]]:
        return self._held

    def draw(self, part: float) -> dict[Part, dict[int, int]]:
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
            self.forget()
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
            answer = await self._session.ask(request, 2, node=self.node)
        except NoAnswer:
            self.forget()
            await asyncio.sleep(0.02)
            return None
        code = answer.error_code
        self._world.history.note(f"{api} answered", self.member_id, code)
        if code:
            self._world.hit(f"{api}.error-{ErrorCode(code).name}")
            self.forget()
            await asyncio.sleep(0.01)
            return None
        self._session_epoch += 1
        return answer

    def _place(self, where: Part) -> Place:
        return self._world.topic_names[where[0]], where[1]


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
