"""Which stretches are brought before a reader far behind asks for them, when, and how much of them is held."""

import asyncio
import itertools

import pytest

from broker.shared.bringing import LogSource
from broker.shared.reading import ahead as module
from broker.shared.reading.ahead import AT_ONCE, AT_ONCE_APART, ReadingAhead
from storage.shared.shared_log import SharedLog
from tests.unit.across_nodes.rig import turns
from tests.unit.reading_ahead.rig import MANY, PIECE, SIZE, World, told
from tests.unit.storage.batches import batch


def test_what_follows_is_brought_before_it_is_asked_for_and_more_of_it_with_each() -> None:
    async def story(world: World) -> None:
        log = await world.log(20)
        offset, asked = 0, []
        for _ in range(6):
            offset = await world.read(log, offset)
            await world.settle()
            asked.append(world.store.asked[:])
            world.store.asked.clear()
        assert asked == [[0], [1, 2], [3, 4], [5, 6, 7], [8], [9]]
        assert world.node.held_bytes == 4 * SIZE

    told(story)


def test_all_is_read_once_and_in_order_and_nothing_of_what_is_in_memory() -> None:
    async def story(world: World) -> None:
        log = await world.log(20)
        assert log.in_memory_from == 19
        offset = 0
        while offset < 20:
            offset = await world.read(log, offset)
            await world.settle()
        assert world.store.asked == list(range(19))

    told(story)


def test_the_store_is_asked_what_follows_when_it_is_not_known() -> None:
    async def story(world: World) -> None:
        log = await world.log(40)
        for offset in range(10):
            await world.read(log, offset)
            await world.settle()
        assert [offset for _, offset in world.store.looked] == [0, 1]

    told(story)


def test_stretches_of_several_runs_follow_one_another_and_are_found_by_any_of_their_offsets() -> None:
    async def story(world: World) -> None:
        world.node.stretch_bytes = 2 * SIZE
        log = await world.log(40)
        for offset in (0, 2, 5, 6, 7, 8, 11):
            assert await world.read(log, offset) == offset + 1
            await world.settle()
        assert world.store.asked == list(range(20))

    told(story)


def test_nothing_is_brought_for_readers_at_the_tail_or_of_what_is_not_committed() -> None:
    async def story(world: World) -> None:
        log = await world.log(4)
        log.append(PIECE, leader_epoch=0)
        assert await world.read(log, 3) == 4
        await world.settle()
        assert world.store.asked == []
        assert await world.read(log, 0, 2) == 2
        await world.settle()
        assert world.store.asked == [0, 1, 2]

    told(story)


def test_what_others_have_committed_meanwhile_is_not_this_nodes_to_read() -> None:
    """The log of another node, which this one has followed up to some offset."""

    async def story(world: World) -> None:
        log = await world.log(6)
        log._here.shrink(6)
        log.durable_offset = 4
        await world.read(log, 0, 3)
        await world.settle()
        assert world.store.asked == [0, 1, 2, 3]

    told(story)


def test_who_reads_here_and_there_has_nothing_brought_ahead() -> None:
    async def story(world: World) -> None:
        log = await world.log(40)
        for offset in (30, 3, 17, 9, 25, 0, 12):
            await world.read(log, offset)
            await world.settle()
        assert world.store.asked == [30, 3, 17, 9, 25, 0, 12]

    told(story)


def test_several_read_a_log_in_order_at_different_places() -> None:
    async def story(world: World) -> None:
        log = await world.log(60)
        places = [0, 20, 40]
        for _ in range(8):
            places = [await world.read(log, offset) for offset in places]
            await world.settle()
        assert sorted(world.store.asked) == sorted(set(world.store.asked)), "each is brought once"
        assert world.node.held_bytes == 3 * 4 * SIZE

    told(story)


def test_who_has_begun_in_many_places_is_remembered_in_a_few() -> None:
    async def story(world: World) -> None:
        log = await world.log(60)
        for offset in range(0, 50, 4):
            await world.read(log, offset, 2)
        await world.settle()
        assert isinstance(log.source, LogSource)
        assert len(log.source._ahead._readers) == module.PLACES
        assert world.node.held_bytes == module.PLACES * SIZE

    told(story)


def test_who_is_given_what_was_ahead_has_asked_and_is_remembered() -> None:
    async def story(world: World) -> None:
        log = await world.log(80)
        await world.read(log, 0, 2)
        for number in range(module.PLACES + 2):
            await world.settle()
            await world.read(log, 2 + number)
            await world.read(log, 20 + 4 * number)
        assert sorted(world.store.asked) == sorted(set(world.store.asked))
        await world.settle()
        assert world.node.held_bytes == module.DEEPEST * SIZE

    told(story)


def test_who_asks_again_for_what_was_given_takes_no_place() -> None:
    async def story(world: World) -> None:
        log = await world.log(40)
        await world.read(log, 0, 2)
        await world.settle()
        for _ in range(module.PLACES + 1):
            log._here.forget_before(2)
            assert await world.read(log, 1) == 2
        assert isinstance(log.source, LogSource)
        assert len(log.source._ahead._readers) == 1
        assert world.node.held_bytes == SIZE

    told(story)


def test_who_jumps_forward_has_what_lies_before_dropped() -> None:
    async def story(world: World) -> None:
        log = await world.log(40)
        await world.read(log, 0, 4)
        await world.settle()
        assert world.node.held_bytes == 4 * SIZE
        world.store.asked.clear()
        await world.read(log, 7)
        await world.settle()
        assert world.store.asked == [8, 9, 10, 11]
        assert world.node.held_bytes == 4 * SIZE

    told(story)


def test_who_asks_for_what_is_on_its_way_waits_for_the_same() -> None:
    async def story(world: World) -> None:
        log = await world.log(10)
        await world.read(log, 0, 2)
        world.store.answers.clear()
        await turns()
        waiting = [asyncio.ensure_future(world.read(log, 2)) for _ in range(3)]
        await turns()
        world.store.answers.set()
        assert await asyncio.gather(*waiting) == [3, 3, 3]
        assert world.store.asked.count(2) == 1

    told(story)


@pytest.mark.parametrize(("keeps_apart", "at_once"), [(False, AT_ONCE), (True, AT_ONCE_APART)])
def test_who_waits_goes_before_what_is_only_ahead(keeps_apart: bool, at_once: int) -> None:
    """A bucket is asked for more of it at a time."""

    async def story(world: World) -> None:
        world.store.keeps_apart = keeps_apart
        world.node = ReadingAhead(world.store, world.memory, MANY, world._own, world.node.turns)
        logs = [await world.log(20) for _ in range(at_once + 1)]
        world.store.answers.clear()
        world.store.holds = lambda offset: offset >= 2
        for log in logs:
            assert await world.read(log, 0, 2) == 2
        await turns()
        assert world.store.under_way == at_once
        reading = [asyncio.ensure_future(world.read(log, 2)) for log in logs]
        await turns()
        assert world.store.under_way == at_once + 1, "that of the last log had not begun, and is asked for itself"
        world.store.answers.set()
        assert await asyncio.gather(*reading) == [3] * len(logs)

    told(story)


def test_many_small_batches_are_looked_at_in_turns() -> None:
    """A stretch may have thousands, and others wait for the loop."""

    async def story(world: World) -> None:
        log = await world.log()
        await world.append(log, batch(1) * 5)
        await world.append(log)
        now_s, turns_of_others = itertools.count(), 0
        world.clock = lambda: float(next(now_s))
        reading = asyncio.ensure_future(world.read(log, 0))
        while not reading.done():
            await asyncio.sleep(0)
            turns_of_others += 1
        assert await reading == 1
        assert turns_of_others > 2 * 5, "there is one before each batch, and those of a task that does nothing else"

    told(story)


@pytest.mark.parametrize(("limit_bytes", "held"), [(3 * SIZE, 3), (3 * SIZE - 1, 2), (SIZE, 1), (SIZE - 1, 0), (0, 0)])
def test_the_limit_holds_to_the_byte(limit_bytes: int, held: int) -> None:
    async def story(world: World) -> None:
        log = await world.log(30)
        offset = 0
        for _ in range(10):
            offset = await world.read(log, offset)
            await world.settle()
        assert world.most_held == world.node.held_bytes == held * SIZE

    told(story, limit_bytes)


def test_what_is_on_its_way_counts() -> None:
    async def story(world: World) -> None:
        log = await world.log(30)
        await world.read(log, 0, 3)
        world.store.answers.clear()
        await turns()
        assert world.node.held_bytes > 0
        log.abandon()
        assert world.node.held_bytes > 0, "it comes yet"
        world.store.answers.set()
        await turns()
        assert world.node.held_bytes == 0

    told(story)


def test_the_readers_of_many_logs_share_it() -> None:
    async def story(world: World) -> None:
        logs = [await world.log(30) for _ in range(6)]
        for offset in range(8):
            for log in logs:
                await world.read(log, offset)
            await world.settle()
        held = [sum(len(one._ahead) for one in source._ahead._readers) for source in _sources(logs)]
        assert held == [1] * 6

    told(story, 7 * SIZE)


def _sources(logs: list[SharedLog]) -> list[LogSource]:
    return [log.source for log in logs if isinstance(log.source, LogSource)]


def test_it_goes_where_writers_are_sent_back() -> None:
    async def story(world: World) -> None:
        log, other = await world.log(30), await world.log(30)
        await world.read(log, 0, 4)
        await world.settle()
        assert world.node.held_bytes == 4 * SIZE
        world.memory._pending_limit_bytes = 0
        await world.read(other, 0, 2)
        assert world.node.held_bytes == 0
        world.store.asked.clear()
        assert await world.read(log, 4, 3) == 7
        await world.settle()
        assert world.store.asked == [4, 5, 6]
        world.memory._pending_limit_bytes = MANY
        await world.read(log, 7, 2)
        await world.settle()
        assert world.node.held_bytes == SIZE

    told(story)


def test_it_goes_when_nobody_reads_on() -> None:
    async def story(world: World) -> None:
        log = await world.log(30)
        await world.read(log, 0, 3)
        await world.settle()
        assert world.node.held_bytes == 2 * SIZE
        world.pass_time()
        assert world.node.held_bytes == 0 and world.node._timer is None
        assert await world.read(log, 3, 5) == 8

    told(story)


def test_who_reads_on_keeps_what_is_ahead_and_others_do_not() -> None:
    async def story(world: World) -> None:
        left, log = await world.log(30), await world.log(30)
        for one in (left, log):
            await world.read(one, 0, 3)
        await world.settle()
        source = log.source
        assert isinstance(source, LogSource)
        world.node._readers[source._ahead._readers[-1]] += 1
        world.pass_time()
        assert world.node.held_bytes == 2 * SIZE
        assert await world.read(log, 3) == 4
        assert world.node._timer is not None, "it is looked again whether it has gone"

    told(story)


def test_who_has_gone_is_found_though_another_that_began_before_reads_on() -> None:
    async def story(world: World) -> None:
        log, left = await world.log(30), await world.log(30)
        await world.read(log, 0, 2)
        await world.read(left, 0, 2)
        await world.settle()
        assert await world.read(log, 2) == 3
        await world.settle()
        assert isinstance(log.source, LogSource)
        world.node._readers[log.source._ahead._readers[-1]] += 1
        world.pass_time()
        assert world.node.held_bytes == 2 * SIZE, "that of who reads on"

    told(story)
