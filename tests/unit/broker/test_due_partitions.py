"""A fetch session looks at what may have something new, and at nothing else; nothing new is missed for that."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.fetching import fetch_attempt
from broker.api.fetching.fetch_session import Session, Wanted
from broker.api.handlers import fetch as handler
from broker.api.services import Services
from broker.partitions.partition import Partition
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from protocol.messages.topics import DeleteTopicState
from tests.unit.broker.test_fetch import LARGE, append
from tests.unit.partition.rig import NOW_MS, in_transaction
from tests.unit.transactions.node_rig import in_a_node, partitions_of

MANY = 12


class Reader:
    """A client with a session; reads what it has not read."""

    def __init__(self, node: Services, count: int, *, isolation: int = 0, connection_id: int = 77) -> None:
        self.node = node
        self.connection = ConnectionInfo(connection_id, "PLAINTEXT", "127.0.0.1", 1)
        self.offsets = dict.fromkeys(range(count), 0)
        self.changed = dict(self.offsets)
        self.isolation = isolation
        self.session_id = self.epoch = 0

    def ask(self, *, wait_ms: int = 0, min_bytes: int = 1, forgotten: Iterable[int] = ()) -> Any:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=LARGE)
            for index, offset in self.changed.items()
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=LARGE,
            isolation_level=self.isolation,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic="t", partitions=partitions)] if partitions else [],
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forgotten))],
        )
        self.changed = {}
        context = RequestContext(self.connection, 1, 12, 1, "test")
        return load_handlers()[1].handler(self.node, context, request)

    async def fetch(self, **asked: Any) -> dict[int, int]:
        """What came of each partition that was told of: bytes, or minus its error."""
        return self.take(await _awaited(self.ask(**asked)))

    def take(self, answer: FetchResponse) -> dict[int, int]:
        assert not answer.error_code
        self.session_id = answer.session_id
        self.epoch += 1
        told = {}
        for topic in answer.responses:
            for data in topic.partitions:
                told[data.partition_index] = sum(map(len, data.records or ())) or -data.error_code  # type: ignore[arg-type]
                if data.records:
                    self.offsets[data.partition_index] = self.changed[data.partition_index] = data.high_watermark
        return told

    @property
    def session(self) -> Session:
        return self.node.fetch_sessions._sessions[self.session_id]

    def due(self) -> list[int]:
        return [wanted.index for wanted in self.session.due()]


async def _awaited(answer: Any) -> FetchResponse:
    answered: FetchResponse = await answer if asyncio.isfuture(answer) else answer
    return answered


def in_many(tmp_path: Path, story: Callable[[Services, list[Partition]], Any], **settings: str) -> None:
    async def told(node: Services) -> None:
        await story(node, partitions_of(node))

    in_a_node(told, tmp_path, num_partitions=str(MANY), **settings)


@pytest.fixture(params=[500, 1], ids=["small", "in slices"])
def _of_both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches of many partitions are another piece of code."""
    monkeypatch.setattr(handler, "AT_ONCE", request.param)


@pytest.mark.usefixtures("_of_both_ways")
def test_what_has_nothing_new_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    known = fetch_attempt.has_nothing_new

    def noted(wanted: Wanted, partition: Partition, read_committed: bool) -> bool:
        looked.append(wanted.index)
        return known(wanted, partition, read_committed)

    async def story(node: Services, partitions: list[Partition]) -> None:
        monkeypatch.setattr(fetch_attempt, "has_nothing_new", noted)
        reader = Reader(node, MANY)
        assert await reader.fetch() == dict.fromkeys(range(MANY), 0), "all of them are told at first"
        assert await reader.fetch() == {}
        assert looked == list(range(MANY))
        looked.clear()
        size = append(partitions[3])
        assert reader.due() == [3]
        assert await reader.fetch() == {3: size}
        assert await reader.fetch() == {}
        assert (looked, reader.due()) == ([3, 3], [])

    in_many(tmp_path, story)


@pytest.mark.usefixtures("_of_both_ways")
def test_a_fetch_that_waits_sees_what_moves(tmp_path: Path) -> None:
    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, MANY)
        for _ in range(2):
            await reader.fetch()
        for index in (7, 2):
            waiting = reader.ask(wait_ms=60_000)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
            size = append(partitions[index])
            assert reader.take(await waiting) == {index: size}

    in_many(tmp_path, story)


@pytest.mark.usefixtures("_of_both_ways")
def test_a_fetch_that_waits_for_more_counts_all_that_has_come(tmp_path: Path) -> None:
    """What came first is due all the while, and what comes to the same partition later is noticed, too."""

    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, MANY)
        for _ in range(2):
            await reader.fetch()
        size = len_of_one(partitions[11])
        await reader.fetch()
        await reader.fetch()
        waiting = reader.ask(wait_ms=60_000, min_bytes=3 * size)
        for index in (4, 9):
            append(partitions[index])
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
        append(partitions[4])
        assert reader.take(await waiting) == {4: 2 * size, 9: size}

    in_many(tmp_path, story)


def len_of_one(partition: Partition) -> int:
    return append(partition)


def test_what_there_was_no_room_for_stays_due(tmp_path: Path) -> None:
    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, MANY)
        for _ in range(2):
            await reader.fetch()
        sizes = {index: append(partitions[index], 2) for index in (5, 1, 8)}
        first = sizes[1]
        told: list[dict[int, int]] = []
        for _ in range(4):
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, max_bytes=first, session_id=reader.session_id, session_epoch=reader.epoch,
                topics=[_moved(reader.changed)] if reader.changed else [],
            )  # fmt: skip
            reader.changed = {}
            context = RequestContext(reader.connection, 1, 12, 1, "test")
            told.append({})
            answer = await _awaited(load_handlers()[1].handler(node, context, request))
            reader.epoch += 1
            for data in answer.responses[0].partitions if answer.responses else ():
                told[-1][data.partition_index] = sum(map(len, data.records or ()))  # type: ignore[arg-type]
                if data.records:
                    reader.changed[data.partition_index] = reader.offsets[data.partition_index] + 1
                    reader.offsets[data.partition_index] += 1
        read = [next(index for index, size in one.items() if size) for one in told]
        assert read == [1, 5, 8, 1], "in their order, and one that had records goes behind the others"

    in_many(tmp_path, story)


def _moved(changed: dict[int, int]) -> FetchTopic:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=LARGE)
        for index, offset in changed.items()
    ]
    return FetchTopic(topic="t", partitions=partitions)


def test_an_error_is_told_again_and_again_until_it_is_over(tmp_path: Path) -> None:
    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, 3)
        await reader.fetch()
        reader.changed = {1: 99}
        for _ in range(3):
            assert await reader.fetch() == {1: -ErrorCode.OFFSET_OUT_OF_RANGE}
        reader.changed = {1: 0}
        assert await reader.fetch() == {1: 0}
        assert await reader.fetch() == {} and reader.due() == []

    in_many(tmp_path, story)


def test_a_topic_that_is_deleted_under_a_session_is_told(tmp_path: Path) -> None:
    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, MANY)
        for _ in range(2):
            await reader.fetch()
        waiting = reader.ask(wait_ms=60_000)
        await asyncio.sleep(0)
        await node.topics.delete([DeleteTopicState(name="t")])
        told = reader.take(await waiting)
        while len(told) < MANY:  # It may have looked while some of them were there.
            told |= await reader.fetch()
        assert set(told.values()) == {-ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        await node.topics.auto_create_all(["t"])
        assert await reader.fetch() == dict.fromkeys(range(MANY), 0), "the same names again, all of them new"

    in_many(tmp_path, story)


def test_records_that_are_deleted_are_told(tmp_path: Path) -> None:
    async def story(node: Services, partitions: list[Partition]) -> None:
        append(partitions[6], 5)
        reader = Reader(node, MANY)
        for _ in range(3):
            await reader.fetch()
        assert reader.due() == []
        partitions[6].delete_records(2)
        assert await reader.fetch() == {6: 0}, "its log begins elsewhere"

    in_many(tmp_path, story)


def test_readers_of_committed_records_are_told_when_a_transaction_ends(tmp_path: Path) -> None:
    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, MANY, isolation=1)
        for _ in range(2):
            await reader.fetch()
        written = partitions[2]
        guard = written.begin_verification(5, 0, 0, False)
        written.append(memoryview(in_transaction(5, 0, 0)), transactional_id="tx", guard=guard, now_ms=NOW_MS)
        flushed(written)
        assert await reader.fetch() == {2: 0}, "the high watermark alone"
        assert await reader.fetch() == {} and reader.due() == []
        reader.isolation = 0
        size = (await reader.fetch())[2]
        assert size > 0, "with another level everything is due"
        reader.isolation, reader.changed[2] = 1, 0
        waiting = reader.ask(wait_ms=60_000)
        written.append_marker(Marker(5, 0, True, 0, 1), NOW_MS)
        flushed(written)
        assert reader.take(await waiting)[2] > size, "and the marker"

    in_many(tmp_path, story)


def flushed(partition: Any) -> None:
    flush = partition.log.begin_flush()
    flush.run()
    partition.log.finish_flush(flush)
    partition.committed_moved()


def test_nothing_watches_for_a_session_that_is_over(tmp_path: Path) -> None:
    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, MANY)
        for _ in range(2):
            await reader.fetch()
        watchers = [len(partition._visibility._watchers) for partition in partitions]
        await reader.fetch(forgotten=[0, 1])
        assert [len(partition._visibility._watchers) for partition in partitions[:2]] == [watchers[0] - 1] * 2
        append(partitions[0])
        assert await reader.fetch() == {}
        node.fetch_sessions.connection_closed(77)
        assert [len(partition._visibility._watchers) + 1 for partition in partitions] == watchers

    in_many(tmp_path, story)


def test_two_fetches_of_one_session_do_not_hide_anything_from_each_other(tmp_path: Path) -> None:
    """A client that repeats a fetch over another connection, while the first still waits."""

    async def story(node: Services, partitions: list[Partition]) -> None:
        reader = Reader(node, 3)
        for _ in range(2):
            await reader.fetch()
        first = reader.ask(wait_ms=60_000)
        reader.epoch += 1
        second = reader.ask(wait_ms=60_000)
        size = append(partitions[1])
        answers = [await first, await second]
        assert [sum(map(len, one.responses[0].partitions[0].records)) for one in answers] == [size, size]

    in_many(tmp_path, story)
