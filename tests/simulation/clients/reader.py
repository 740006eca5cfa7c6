"""A reader of a topic, with or without a fetch session, of everything or of what is committed."""

import asyncio
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.records.batch import first_corrupt, headers_in
from tallystick.client.reading import joined, visible_records
from tests.simulation.clients.limits import Limits
from tests.simulation.clients.lookup import EARLIEST, offset_at
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import CameBack, Look, Place, Reading, Seen
from tests.simulation.plan_clients import WIDE
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

NO_TOPIC_ID = bytes(16)
WIDE_PLACES = 60
"""Of the many partitions of a plan, a reader reads no more."""


async def run(world: World, plan: ClientPlan) -> None:
    """Read until it is time to finish."""
    random = Random(plan.seed)
    topic = str(plan.option("topic", "a"))
    places = [(topic, partition) for partition in range(world.plan.partitions)]
    if topic == WIDE and world.plan.wide is not None:
        places = world.plan.wide.places[:WIDE_PLACES]
    reader = Reader(
        world,
        Session(world, plan.name),
        places,
        committed_only=bool(plan.option("committed", True)),
        with_session=bool(plan.option("sessions", False)),
        max_bytes=random.choice((200, 2000, 1 << 20)),
    )
    while not world.closing:
        await reader.poll(max_wait_ms=random.choice((0, 50, 500)), min_bytes=random.choice((1, 1, 300)))
        if random.random() < 0.05:
            await asyncio.sleep(random.random())
    reader.session.drop()


class Reader:
    """Positions in some partitions, and one fetch after the other."""

    def __init__(
        self,
        world: World,
        session: Session,
        places: list[Place],
        *,
        committed_only: bool,
        with_session: bool = False,
        max_bytes: int = 1 << 20,
    ) -> None:
        self.world = world
        self.session = session
        self.positions: dict[Place, int] = dict.fromkeys(places, 0)
        self.reading = Reading(session.name, committed_only)
        world.history.readings.append(self.reading)
        self._committed_only = committed_only
        # One session is with one node; partitions of several have none.
        self._with_session = with_session = with_session and (not world.ports or world.plan.partitions == 1)
        self._session_id, self._session_epoch = 0, (0 if with_session else -1)
        self._told: dict[Place, int] = {}
        self._reset: set[Place] = set()
        self._lost: dict[Place, int] = {}
        """Where the position is no part of the log any more → when it was requested."""
        self._max_bytes = max_bytes
        self._limits = Limits(world, session.name, max_bytes)
        self._version = 13 if int(session.name[-1:].isdigit() and session.name[-1]) % 2 else 12

    def seek(self, positions: dict[Place, int]) -> None:
        """Read these partitions from there, and no others."""
        self.positions = dict(positions)
        self._reset = set(positions)
        self._lost.clear()
        self._new_session()

    async def poll(self, *, max_wait_ms: int, min_bytes: int = 1) -> list[tuple[Place, int, int]]:
        """One fetch; returns (place, offset, number) of the records that a consumer would show."""
        for place in sorted(self._lost):
            start = await offset_at(self.session, place, EARLIEST, 0)
            if start is None:
                await asyncio.sleep(0.02)
                return []
            self._goes_to_the_start(place, start)
            self._told.pop(place, None)
            self._reset.add(place)
        self._lost.clear()
        sent_at = self.world.history.time
        request = self._request(max_wait_ms, min_bytes)
        self._limits.draw(request)
        try:
            answer = await self.session.ask(request, self._version)
        except NoAnswer:
            self._new_session()
            await asyncio.sleep(0.02)
            return []
        if answer.error_code:
            self.world.hit(f"fetch.error-{answer.error_code}")
            self._new_session()
            return []
        self._check_limits(request, answer, sent_at)
        if self._with_session:
            self._session_id = answer.session_id
            self._session_epoch = self._session_epoch + 1 if answer.session_id else 0
        shown: list[tuple[Place, int, int]] = []
        refused = False
        for topic in answer.responses:
            name = topic.topic or self.world.topic_names.get(topic.topic_id, "")
            for partition in topic.partitions:
                place = (name, partition.partition_index)
                refused = refused or bool(partition.error_code)
                if place in self.positions:
                    news = self._take(place, partition, sent_at)
                    self._check_topic(topic.topic_id, news)
                    shown += news
        if refused:
            await asyncio.sleep(0.01)
        return shown

    def _check_limits(self, request: FetchRequest, answer: FetchResponse, sent_at: int) -> None:
        history = self.world.history
        if self.world.ports:
            return  # an answer may be put together of those of several nodes
        # What is asked of a broker that is stopping already, it answers at once: all of its life counts.
        began = min(sent_at, history.serves[-1] if history.serves else 0)
        for sentence in self._limits.wrong(request, answer, history.ended_at > began):
            history.violation(f"{self.reading.reader}: {sentence}")

    def _check_topic(self, topic_id: bytes, shown: list[tuple[Place, int, int]]) -> None:
        """A fetch by topic id returns nothing that was sent to a namesake."""
        history = self.world.history
        for place, offset, number in shown if topic_id != NO_TOPIC_ID else ():
            sent_to = history.writes[number].topic_ids
            if sent_to and topic_id not in sent_to:
                history.violation(f"{self.reading.reader} was shown record {number} of another {place} at {offset}")

    def _goes_to_the_start(self, place: Place, start: int) -> None:
        """Backwards only where the broker that had a later start crashed before that was written down."""
        history, position = self.world.history, self.positions[place]
        history.starts.setdefault(place, []).append(start)
        if start < position and any(crash > self._lost[place] for crash in history.crashes):
            time = history.note("came back", self.reading.reader, place, start, position)
            self.reading.came_back.append(CameBack(time, place, range(start, position)))
            self.world.hit("reader.went-back")
        self.positions[place] = start

    def _new_session(self) -> None:
        self._session_id, self._session_epoch = 0, (0 if self._with_session else -1)
        self._told.clear()

    def _request(self, max_wait_ms: int, min_bytes: int) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for place, position in self.positions.items():
            if self._session_id and self._told.get(place) == position:
                continue
            self._told[place] = position
            topics.setdefault(place[0], []).append(
                FetchPartition(partition=place[1], fetch_offset=position, partition_max_bytes=self._max_bytes)
            )
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=self._max_bytes * 2,
            isolation_level=int(self._committed_only),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[
                FetchTopic(topic=name, topic_id=self.world.topic_ids.get(name, bytes(16)), partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def _whole(self, data: bytes) -> bytes:
        """What stands before a batch whose checksum is wrong: a consumer shows nothing of that."""
        corrupt = first_corrupt(data) if self.world.plan.spoils else None
        if corrupt is None:
            return data
        self.world.hit("fetch.corrupt")
        return data[:corrupt]

    def _take(self, place: Place, found: PartitionData, sent_at: int) -> list[tuple[Place, int, int]]:
        history = self.world.history
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.world.hit("fetch.out-of-range")
            self._lost[place] = sent_at
            return []
        if found.error_code:
            self.world.hit(f"fetch.error-{found.error_code}")
            self._told.pop(place, None)
            return []
        data = self._whole(joined(found))
        aborted = found.aborted_transactions or [] if self._committed_only else None
        position = self.positions[place]
        records: list[Any] = list(visible_records(data, aborted, position))
        end = max((header.next_offset for _, header in headers_in(data)), default=position)
        if records and self.session.read_near(place):
            self.world.hit("reader.read-near")
        values = [(record.offset, _number_of(record)) for record in records]
        offsets = (found.high_watermark, found.last_stable_offset)
        time = history.note("saw", self.session.name, place, position, end, *offsets, values)
        self.reading.looks.append(
            Look(
                time=time,
                sent_at=sent_at,
                place=place,
                position=position,
                next_position=end,
                high_watermark=found.high_watermark,
                last_stable_offset=found.last_stable_offset,
                log_start_offset=found.log_start_offset,
                reset=place in self._reset,
                near=self.session.read_near(place),
            )
        )
        if records:
            self._reset.discard(place)
        self.positions[place] = end
        shown = [(place, record.offset, _number_of(record)) for record in records]
        self.reading.seen += [Seen(time, place, offset, number) for _, offset, number in shown]
        return shown


def _number_of(record: Any) -> int:
    number = record.value if record.value is not None else dict(record.headers)["number"]
    return int(number)
