"""What becomes of what is ahead of a reader where something fails, is gone, or is written anew."""

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.log import LogDamaged
from storage.shared.shared_log import SharedLog
from storage.shared.store import ObjectMissing, StoreUnreachable
from tests.unit.across_nodes.rig import turns
from tests.unit.reading_ahead.rig import MANY, PIECE, SIZE, World, told
from tests.unit.storage.batches import batch


def test_damage_ahead_is_told_to_nobody_but_who_comes_there(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        log = await world.log(12)
        world.store.damage(4)
        await world.read(log, 0, 4)
        await world.settle()
        assert not caplog.records
        with pytest.raises(LogDamaged):
            await world.read(log, 4)
        assert await world.read(log, 5, 5) == 10
        with pytest.raises(LogDamaged):
            await world.read(log, 4)

    with caplog.at_level(logging.INFO):
        told(story)


def test_a_stretch_that_is_damaged_in_its_middle_is_not_held() -> None:
    async def story(world: World) -> None:
        world.node.stretch_bytes = 2 * SIZE
        log = await world.log(12)
        world.store.damage(5)
        assert await world.read(log, 0, 3) == 3
        await world.settle()
        assert world.store.asked == [0, 1, 2, 3, 4, 5]
        assert world.node.held_bytes == 0
        assert await world.read(log, 3, 2) == 5
        with pytest.raises(LogDamaged):
            await world.read(log, 5)
        assert await world.read(log, 6, 5) == 11

    told(story)


def test_a_store_that_cannot_be_asked_ahead_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        log = await world.log(12)
        await world.read(log, 0)
        failed: list[int] = []

        def once(offset: int) -> Exception | None:
            if offset < 2 or offset in failed:
                return None
            failed.append(offset)
            return StoreUnreachable("away")

        world.store.fails = once
        assert await world.read(log, 1) == 2
        await world.settle()
        assert failed == [2]
        for offset in range(2, 11):
            await world.settle()
            await world.read(log, offset)
        assert not caplog.records

    with caplog.at_level(logging.INFO):
        told(story)


def test_who_waits_for_what_fails_ahead_has_it_brought_anew() -> None:
    async def story(world: World) -> None:
        log = await world.log(12)
        await world.read(log, 0, 2)
        world.store.answers.clear()
        await turns()
        waiting = asyncio.ensure_future(world.read(log, 2))
        await turns()
        world.store.fails = lambda offset: StoreUnreachable("away") if world.store.asked.count(2) == 1 else None
        world.store.answers.set()
        assert await waiting == 3

    told(story)


def test_what_was_removed_meanwhile_is_looked_for_anew() -> None:
    """The runs of another node's log are known, and are written anew there."""

    async def story(world: World) -> None:
        log = await world.log(12)
        await world.read(log, 0, 2)
        await world.settle()
        gone = True
        world.store.fails = lambda offset: ObjectMissing("gone") if gone and offset > 2 else None
        assert await world.read(log, 2) == 3
        await world.settle()
        gone = False
        assert await world.read(log, 3, 6) == 9

    told(story)


def test_what_was_written_anew_is_not_read_as_it_was() -> None:
    async def story(world: World) -> None:
        log = await world.log(12)
        await world.read(log, 0, 2)
        await world.settle()
        world.store.answers.clear()
        waiting = asyncio.ensure_future(world.read(log, 5))
        await world.read(log, 2)
        await turns()
        assert log.source is not None
        log.source.forget_before(8)
        assert world.node.held_bytes == 2 * SIZE, "it is on its way yet"
        world.store.asked.clear()
        world.store.answers.set()
        assert await waiting == 6
        assert await world.read(log, 3) == 4
        await world.settle()
        assert [offset for offset in world.store.asked if offset < 8] == [5, 3, 4]

    told(story)


def test_what_comes_is_outdated_up_to_where_it_was_written_anew() -> None:
    async def story(world: World) -> None:
        log = await world.log(12)
        world.store.answers.clear()
        reading = [asyncio.ensure_future(world.read(log, offset)) for offset in (3, 5, 6, 8)]
        await turns()
        assert log.source is not None
        log.source.forget_before(6)
        world.store.answers.set()
        assert await asyncio.gather(*reading) == [4, 6, 7, 9]
        assert world.store.asked == [3, 5, 6, 8, 3, 5]

    told(story)


@pytest.mark.parametrize("turns_before", range(6))
def test_a_log_that_is_gone_in_the_middle_leaves_nothing(turns_before: int) -> None:
    async def story(world: World) -> None:
        log, other = await world.log(30), await world.log(30)
        await world.read(log, 0, 3)
        await world.read(other, 0, 3)
        for _ in range(turns_before):
            await asyncio.sleep(0)
        log.abandon()
        await turns()
        world.look()
        assert world.node.held_bytes == 2 * SIZE, "that of the other"
        assert await world.read(other, 3, 5) == 8

    told(story)


def test_what_comes_when_a_log_is_gone_leads_to_nothing_more() -> None:
    """One reader behind the other, which would be one that reads on."""

    async def story(world: World) -> None:
        log = await world.log(30)
        world.store.answers.clear()
        for offset in (0, 1):
            log.ask_for(offset)
        await turns()
        log.abandon()
        world.store.answers.set()
        await world.settle()
        assert world.store.asked == [0, 1]
        assert world.node.held_bytes == 0

    told(story)


def test_a_log_that_begins_later_by_now_is_read_from_there() -> None:
    async def story(world: World) -> None:
        log = await world.log(30)
        await world.read(log, 0, 3)
        await world.settle()
        log.trim(6)
        assert await world.read(log, 6, 8) == 14

    told(story)


# -- anything ------------------------------------------------------------------------------------------------------

_ACTIONS = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 6)),
    st.tuples(st.just("seek"), st.integers(0, 2), st.floats(0, 1)),
    st.tuples(st.just("append"), st.integers(1, 3), st.integers(1, 250)),
    st.tuples(st.just("fail"), st.integers(0, 4), st.none()),
    st.tuples(st.just("turns"), st.integers(0, 3), st.none()),
    st.tuples(st.just("anew"), st.floats(0, 1), st.none()),
    st.tuples(st.just("full"), st.booleans(), st.none()),
    st.tuples(st.just("shrink"), st.none(), st.none()),
)


class Readers:
    """Three readers of one log, to which more is written; each action is a method."""

    def __init__(self, world: World, log: SharedLog, written: list[bytes]) -> None:
        self._world, self._log, self._written = world, log, written
        self._places = [0, 0, 0]
        self._failures = 0
        world.store.fails = self._failing

    def _failing(self, offset: int) -> Exception | None:
        self._failures -= 1
        return StoreUnreachable("away") if self._failures >= 0 else None

    async def read(self, reader: int, count: int) -> None:
        for _ in range(count):
            if self._places[reader] < self._log.durable_offset:
                await self._read_one(reader)

    async def _read_one(self, reader: int) -> None:
        offset = self._places[reader]
        following: int | None = None
        while following is None:
            try:
                following = await self._world.read(self._log, offset)
            except OSError:  # The store could not be asked: the reader comes again.
                continue
        (found,) = self._log.read_slice(offset, 1, end_offset=self._log.durable_offset).batches
        assert bytes(found)[61:] == self._written[offset][61:] and following == offset + 1
        self._places[reader] = following

    async def seek(self, reader: int, where: float) -> None:
        self._places[reader] = int(where * self._log.durable_offset)

    async def append(self, count: int, size: int) -> None:
        for _ in range(count):
            self._written.append(batch(1, value=b"w" * size))
            await self._world.append(self._log, self._written[-1])

    async def fail(self, count: int, _: None) -> None:
        self._failures = count

    async def turns(self, count: int, nothing: None) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def anew(self, where: float, _: None) -> None:
        offset = int(where * self._log.in_memory_from)
        assert self._log.source is not None
        self._log._here.forget_before(offset)
        self._log.source.forget_before(offset)

    async def full(self, is_full: bool, _: None) -> None:
        self._world.memory._pending_limit_bytes = 0 if is_full else MANY

    async def shrink(self, *_: None) -> None:
        self._log._here.shrink(self._log.durable_offset)


@given(actions=st.lists(_ACTIONS, max_size=60), limit=st.integers(0, 6 * SIZE))
@settings(max_examples=150, deadline=None)
def test_whatever_is_done_readers_read_what_was_written(actions: list[Any], limit: int) -> None:
    async def story(world: World) -> None:
        readers = Readers(world, await world.log(10), [PIECE] * 10)
        for what, one, other in actions:
            await getattr(readers, what)(one, other)
            world.look()

    told(story, limit)
