"""What a node reads of partitions that others lead: how long it follows one, what it shows, when it gives one up."""

import asyncio

import pytest

from broker.coordination.across_nodes import followed_partitions as module
from broker.coordination.across_nodes.followed_partitions import EXPIRED_EACH_MS, IDLE_MS, WATCHED_MS
from broker.shared import bringing
from broker.shared import partitions as shared_partitions
from protocol.records.control import end_transaction_marker
from storage.log import LogDamaged
from tests.unit.across_nodes.followed import PATIENCE_S, SILENT_MS, TOPIC_ID, World, told
from tests.unit.across_nodes.rig import ME
from tests.unit.partition.rig import in_transaction
from tests.unit.storage.batches import batch


def test_what_is_committed_later_comes_by_itself() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1))
        partition = await world.read_at(0)
        assert (partition.high_watermark, partition.leader_epoch) == (1, 7)
        moved: list[int] = []
        partition.watch(lambda: moved.append(partition.high_watermark))
        await world.commit(batch(1, 2))
        await world.until(lambda: bool(moved))
        assert moved[-1] == 3 and await world.read_at(0) is partition

    told(story)


def test_who_has_seen_more_waits_for_a_look_that_begins_later() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1))
        assert (await world.read_at(0)).end_offset == 1
        await world.commit(batch(1))
        assert (await world.read_at(1)).end_offset == 1, "that is its end, and nobody has seen more"
        assert (await world.read_at(2)).end_offset == 2
        looks = world.store.looks
        assert (await world.read_at(7)).end_offset == 2, "it is not there: to be refused"
        assert world.store.looks == looks + 1

    told(story, look_s=PATIENCE_S)


def test_a_long_backlog_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_partitions, "ENOUGH_BYTES", 1)
    monkeypatch.setattr(bringing, "STRETCH_BYTES", 1)
    monkeypatch.setattr(module, "TAKEN_AT_ONCE", 1)

    async def story(world: World) -> None:
        partition = await world.read_at(0)
        for _ in range(5):
            await world.commit(batch(1), batch(1))
        looks = world.store.looks
        assert (await world.read_at(10)) is partition and partition.end_offset == 10
        assert world.store.looks >= looks + 5, "each of them brought one object"

    told(story)


def test_transactions_are_undecided_until_their_marker_is_seen() -> None:
    async def story(world: World) -> None:
        await world.commit(in_transaction(9, 0, 0))
        partition = await world.read_at(0)
        assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
        await world.commit(
            end_transaction_marker(producer_id=9, producer_epoch=0, commit=False, coordinator_epoch=0, timestamp_ms=1)
        )
        partition = await world.read_at(2)
        assert partition.last_stable_offset == 2
        found = partition.read(0, 1 << 20, read_committed=True)
        assert [(one.producer_id, one.first_offset) for one in found.aborted or []] == [(9, 0)]

    told(story)


def test_what_begins_later_begins_later_here() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1), batch(1))
        partition = await world.read_at(0)
        await world.commit(start_offset=1)
        await world.until(lambda: partition.log_start_offset == 1)

    told(story)


def test_a_log_that_is_written_anew_while_it_is_read_is_opened_again() -> None:
    """Compaction of its owner, or retention: nothing is damaged, and no reader is told so."""

    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.store.is_rewritten = True
        await world.commit(batch(1))
        with pytest.raises(OSError, match="was written anew while it was read"):
            await world.read_at(1)
        assert partition.discarded
        world.store.is_rewritten = False
        assert (await world.read_at(1)).end_offset == 1

    told(story)


def test_what_is_away_is_brought_and_where_it_is_gone_nothing_is_damaged() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1))
        await world.commit(batch(1))
        partition = await world.read_at(0)
        partition.shared._here.shrink(2)  # As others have taken its place in memory.
        away = partition.log.away(0)
        assert away is not None and partition.read(0, 1 << 20, read_committed=False).records == []
        await away
        assert partition.read(0, 1 << 20, read_committed=False).records
        partition.shared._here.forget_before(2)
        world.store.is_rewritten = True
        away = partition.log.away(0)
        assert away is not None
        with pytest.raises(OSError, match="the store has no run there"):
            await away
        assert partition.read(0, 1 << 20, read_committed=False).records == [], "it is asked for again"

    told(story)


def test_a_batch_that_lies_elsewhere_is_not_passed_over_here_either() -> None:
    async def story(world: World) -> None:
        await world.commit(batch(1), batch(1))
        partition = await world.read_at(0)
        world.store.damage(0)
        partition.shared._here.forget_before(2)
        await partition.shared.ask_for(0)
        with pytest.raises(LogDamaged, match="t-0 is damaged at offset 0: a batch is not in its place"):
            partition.read(0, 1 << 20, read_committed=False)
        await world.commit(batch(1), batch(1))
        world.store.damage(1)
        with pytest.raises(OSError, match="t-0 is damaged at offset 2"):
            await world.read_at(4)
        assert partition.discarded

    told(story)


def test_producers_that_are_silent_for_long_are_forgotten_here_too() -> None:
    async def story(world: World) -> None:
        await world.commit(in_transaction(9, 0, 0))
        await world.commit(
            end_transaction_marker(producer_id=9, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp_ms=1)
        )
        partition = await world.read_at(2)
        assert len(partition.derived.producers) == 1
        world.expiration_ms = 1
        partition.watch(lambda: None)
        world.environment.now_ms += EXPIRED_EACH_MS + 1
        await world.until(lambda: not len(partition.derived.producers))

    told(story)


def test_it_is_followed_for_as_long_as_somebody_reads() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.environment.now_ms += IDLE_MS
        looks = world.store.looks
        await world.until(lambda: world.store.looks > looks + 1)
        assert len(world.followed) == 1
        watcher = lambda: None  # noqa: E731
        partition.watch(watcher)
        world.environment.now_ms += 1
        looks = world.store.looks
        await world.until(lambda: world.store.looks > looks + 1)
        assert len(world.followed) == 1, "a session has looked at it"
        partition.unwatch(watcher)
        await world.until(lambda: not len(world.followed))
        assert partition.discarded and (await world.read_at(0)) is not partition

    told(story)


def test_a_session_that_is_left_open_does_not_keep_it_for_good() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        woken: list[None] = []
        partition.watch(lambda: woken.append(None))
        world.environment.now_ms += WATCHED_MS + 1
        await world.until(lambda: not len(world.followed))
        assert woken, "who still reads looks again"

    told(story)


@pytest.mark.parametrize("what", ["leads", "deleted", "made again"])
def test_it_is_given_up_where_it_is_no_other_node_s_any_more(what: str) -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        partition.watch(lambda: None)
        if what == "leads":
            world.leader = ME
        elif what == "deleted":
            world.topic = None
        else:
            await world.store.forget(world._other, TOPIC_ID)
            await world.store.claim(world._other, TOPIC_ID, 0, 0)
        await world.until(lambda: partition.discarded)

    told(story)


def test_a_store_that_is_away_for_long_sends_readers_to_the_leader() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.store.is_away = True
        looks = world.store.looks
        await world.until(lambda: world.store.looks > looks + 2)
        assert await world.read_at(0) is partition, "not for a moment"
        with pytest.raises(OSError, match="away"):
            await world.read_at(1)
        world.environment.now_ms += SILENT_MS + 1
        await world.until(lambda: partition.discarded)
        with pytest.raises(OSError, match="is not followed"):
            await world.read_at(0)

    told(story)


def test_a_store_that_does_not_answer_is_one_that_is_away() -> None:
    async def story(world: World) -> None:
        partition = await world.read_at(0)
        world.silent_ms = 1
        world.store.answers.clear()
        await world.until(lambda: partition.discarded)

    told(story)


def test_a_first_look_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPENED_IN_S", 0.001)

    async def story(world: World) -> None:
        world.store.answers.clear()
        with pytest.raises(OSError, match="does not answer"):
            await world.read_at(0)

    told(story)


def test_many_are_not_opened_at_once() -> None:
    async def story(world: World) -> None:
        world.store.answers.clear()
        for index in range(50):
            world.followed.partition(world.topic, index, 0, 0)
        await world.until(lambda: world.store.looks >= module.OPENED_AT_ONCE)
        await asyncio.sleep(0)
        assert world.store.looks == module.OPENED_AT_ONCE

    told(story)
