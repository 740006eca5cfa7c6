"""Logs that another machine is asked for before they are opened: what may happen meanwhile."""

import asyncio

import pytest

from tests.unit.cluster.test_openings_one_by_one import World, in_a, turns


def test_a_log_whose_topic_goes_while_it_is_prepared_is_not_opened() -> None:
    """Another machine is asked for what opening it needs, and takes its time."""

    async def story(world: World) -> None:
        world.preparing = asyncio.Event()
        (t,) = world.topics.values()
        waiting = asyncio.ensure_future(world.logs.wait_until_open([t]))
        await turns()
        assert world.noted == []
        world.standing.clear()
        world.preparing.set()
        await waiting
        assert world.noted == [("t0", "let go")] and world.published == 0

    in_a(story, in_memory=True, t=1)


def test_a_stop_waits_no_longer_for_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.coordination.opening_logs.LAST_MOMENT_S", 0.0)

    async def story(world: World) -> None:
        world.preparing = asyncio.Event()
        (t,) = world.topics.values()
        waiting = [asyncio.ensure_future(world.logs.wait_until_these_are_open([(t, index)])) for index in range(4)]
        await turns()
        world.logs.stop()
        await world.logs.wait_until_stopped()
        await asyncio.gather(*waiting)
        assert world.noted == [] and world.published == 0

    in_a(story, in_memory=True, t=4)


def test_a_deleted_topic_is_not_left_while_another_machine_is_asked_for_a_log() -> None:
    """What is claimed late would be there again."""

    async def story(world: World) -> None:
        world.preparing = asyncio.Event()
        (t,) = world.topics.values()
        waiting = asyncio.gather(*(world.logs.wait_until_these_are_open([(t, index)]) for index in range(3)))
        await turns()
        world.standing.clear()
        left = asyncio.ensure_future(world.logs.wait_until_left(t))
        await turns()
        assert not left.done()
        world.preparing.set()
        await left
        await waiting
        assert world.noted == [("t0", "let go"), ("t1", "let go")], "the third one's turn has not come"

    in_a(story, in_memory=True, t=3)


def test_a_refused_claim_is_told_with_its_epoch() -> None:
    async def story(world: World) -> None:
        told: list[tuple[str, int, int]] = []
        world.logs.on_lost = lambda topic, index, epoch: told.append((topic.name, index, epoch))
        world.owned_elsewhere = 4
        world.epoch = 3
        world.preparing = asyncio.Event()
        (t,) = world.topics.values()
        waiting = asyncio.ensure_future(world.logs.wait_until_open([t]))
        await turns()
        world.epoch = 5
        world.preparing.set()
        await waiting
        assert told == [("t", 0, 3)] and world.open_now() == {"t": 1}, "it was claimed again, under the later one"

    in_a(story, in_memory=True, t=1)


def test_what_is_open_already_takes_no_long_turn() -> None:
    """Thousands may have been opened by requests, or deleted, before their turn in the background came."""

    async def story(world: World) -> None:
        (t,) = world.topics.values()
        await world.logs.wait_until_open([t])
        turns_taken = 0

        async def count() -> None:
            nonlocal turns_taken
            while True:
                turns_taken += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        await world.logs.wait_until_these_are_open([(t, 0), (None, 1)] * 1000)
        assert turns_taken > 10
        counting.cancel()

    in_a(story, in_memory=True, t=1)
