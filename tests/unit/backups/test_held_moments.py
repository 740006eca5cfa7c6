"""Whose a moment is, and when it goes: one that nobody copies, that was given up, that was not made to its end."""

import asyncio
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.backups.source import of_moment
from broker.disk.pinning import Pin
from broker.process.environment import RealEnvironment
from broker.upkeep import pinned_moments
from broker.upkeep.pinned_moments import MOMENT, PINS_FOLDER, NotNow, PinnedMoments, State
from tests.unit.backups.world import World


def test_a_moment_that_nobody_holds_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        environment = RealEnvironment(world.files)
        pins = world.pins(environment)
        made = [await pins.begin() for _ in range(4)]
        with pytest.raises(NotNow, match="4 backups are under way"):
            await pins.begin()
        while any(one.state is State.LINKING for one in made):
            await asyncio.sleep(0)
        await pins.sweep()
        assert len(list((world.root / PINS_FOLDER).iterdir())) == 4, "they are young"
        another = world.pins(environment)  # after a start
        with (Path(pins.folder(made[0].id)) / "lock").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            await another.take_up()
            assert [one.name for one in (world.root / PINS_FOLDER).iterdir()] == [made[0].id]
            await another.sweep()
            assert another.find(made[0].id) is not None
        await another.sweep()
        assert another.find(made[0].id) is None
        assert list((world.root / PINS_FOLDER).iterdir()) == []
        environment.close()

    asyncio.run(story())


def test_one_whose_links_were_not_all_made_is_never_copied(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker was killed meanwhile, and runs again before whoever waits for the links asks after them."""

    def killed(_pins: PinnedMoments, pin: Pin, *_: object) -> None:
        world.files.pinning.link_all(pin)

    async def story() -> None:
        environment = RealEnvironment(world.files)
        with monkeypatch.context() as patched:
            patched.setattr(PinnedMoments, "_write", killed)
            made = await world.pins(environment).begin()
            while made.state is State.LINKING:
                await asyncio.sleep(0)
        pins = world.pins(environment)
        with (Path(pins.folder(made.id)) / "lock").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            await pins.take_up()
            found = pins.find(made.id)
            assert found is not None and found.state is State.FAILED and "all files were linked" in found.reason
        await pins.sweep()
        assert list((world.root / PINS_FOLDER).iterdir()) == []
        environment.close()

    asyncio.run(story())


def test_one_that_nobody_holds_goes_where_the_clock_was_set_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        environment = RealEnvironment(world.files)
        pins = world.pins(environment)
        made = await pins.begin()
        while made.state is State.LINKING:
            await asyncio.sleep(0)
        monkeypatch.setattr(environment, "wall_ms", lambda: made.made_ms - 3_600_000)
        await pins.sweep()
        assert list((world.root / PINS_FOLDER).iterdir()) == []
        environment.close()

    asyncio.run(story())


def test_a_moment_says_when_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not when all of its files were linked, which may be much later."""
    clock = [1_000]

    async def story() -> None:
        environment = RealEnvironment(world.files)
        monkeypatch.setattr(environment, "wall_ms", lambda: clock[0])
        link_all = world.files.pinning.link_all

        def slowly(pin: Pin) -> None:
            clock[0] = 60_000
            link_all(pin)

        monkeypatch.setattr(world.files.pinning, "link_all", slowly)
        pins = world.pins(environment)
        made = await pins.begin()
        while made.state is State.LINKING:
            await asyncio.sleep(0)
        assert of_moment(pins.folder(made.id)).taken_ms == 1_000
        await pins.release(made.id)
        environment.close()

    asyncio.run(story())


def test_a_moment_says_nothing_before_it_says_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its last lines it would be a data folder without some logs."""
    named: list[bool] = []
    lines = pinned_moments._lines

    def watched(*arguments: Any) -> Iterator[bytes]:
        for line in lines(*arguments):
            named.append(bool(list((world.root / PINS_FOLDER).glob(f"*/{MOMENT}"))))
            yield line

    monkeypatch.setattr(pinned_moments, "_lines", watched)

    async def story() -> None:
        environment = RealEnvironment(world.files)
        pins = world.pins(environment)
        made = await pins.begin()
        while made.state is State.LINKING:
            await asyncio.sleep(0)
        assert named == [False] * 3 and (Path(pins.folder(made.id)) / MOMENT).exists()
        await pins.release(made.id)
        environment.close()

    asyncio.run(story())


def test_one_that_is_given_up_while_it_waits_leaves_nothing(world: World) -> None:
    async def story() -> None:
        environment = RealEnvironment(world.files)
        pins = world.pins(environment)
        first = await pins.begin()
        waiting = asyncio.ensure_future(pins.begin())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() and [*pins._known] == [first.id]
        await pins.release(first.id)
        assert list((world.root / PINS_FOLDER).iterdir()) == []
        environment.close()

    asyncio.run(story())


def test_none_while_logs_are_being_opened(world: World) -> None:
    async def story() -> None:
        environment = RealEnvironment(world.files)
        pins = world.pins(environment)
        pins._topics.to_open.any_left = True  # type: ignore[misc]
        with pytest.raises(NotNow, match="still being opened"):
            await pins.begin()
        pins._topics.to_open.any_left = False  # type: ignore[misc]
        made = await pins.begin()
        while made.state is State.LINKING:
            await asyncio.sleep(0)
        await pins.release(made.id)
        assert list((world.root / PINS_FOLDER).iterdir()) == []
        environment.close()

    asyncio.run(story())


def test_a_moment_that_is_let_go_of_twice_at_a_time_goes_once(world: World) -> None:
    async def story() -> None:
        environment = RealEnvironment(world.files)
        pins = world.pins(environment)
        made = await pins.begin()
        assert await asyncio.gather(pins.release(made.id), pins.release(made.id)) == [True, False]
        environment.close()

    asyncio.run(story())
