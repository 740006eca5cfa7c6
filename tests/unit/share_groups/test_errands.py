"""What the share coordinator is asked for a group, and what the group hears of it, whatever comes of the single
partitions."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.coordination.coordinators import CoordinatorError
from broker.coordination.share_groups.errands import AT_ONCE, ShareErrands
from coordinator.groups.share.answers import Errand
from coordinator.share_state.answers import DONE, UNKNOWN_PARTITION, Summary, Verdict
from coordinator.share_state.kept import ShareKey
from protocol.errors import ErrorCode
from protocol.internal_topics import SHARE_GROUP_STATE

T, U = b"t" * 16, b"u" * 16
ERRAND = Errand("g", 7, {U: frozenset({3}), T: frozenset({2, 0, 1})})
ALL = [(U, 3), (T, 0), (T, 1), (T, 2)]
FENCED, REFUSED = Verdict(ErrorCode.FENCED_STATE_EPOCH), Verdict(ErrorCode.NOT_COORDINATOR)


class World:
    """Both coordinators and the topics of a node. What is asked of the share coordinator is written down; it answers
    what `answers` has for a partition, the first of it first, and otherwise that it is done."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.heard: list[tuple[Any, ...]] = []
        self.answers: dict[tuple[bytes, int], list[Any]] = {}
        self.has_topic = True
        self.topic_refusal: ErrorCode | None = None
        self.group_refusal: ErrorCode | None = None
        self.passed: Errand | None = None
        self.asked_again: frozenset[int] = frozenset()
        self.opened: list[str] = []
        self.under_way = self.most_under_way = 0
        self.gate: asyncio.Event | None = None
        self.shards = SimpleNamespace(open=self.opened.extend)
        self.tasks: list[asyncio.Task[Any]] = []
        self.errands = ShareErrands(cast(Any, self), cast(Any, self), cast(Any, self), self._own)

    def _own(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    # -- the share coordinator

    async def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> Verdict:
        return cast(Verdict, await self._answer("initialize", key, state_epoch, start_offset))

    async def summarize(self, key: ShareKey) -> Summary | Verdict:
        return cast(Summary, await self._answer("summarize", key))

    async def delete(self, key: ShareKey) -> Verdict:
        return cast(Verdict, await self._answer("delete", key))

    async def _answer(self, what: str, key: ShareKey, *more: int) -> object:
        assert key.group_id == "g"
        place = (key.topic_id, key.partition)
        self.asked.append((what, *place, *more))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()
        self.under_way -= 1
        answer = self.answers[place].pop(0) if self.answers.get(place) else DONE
        if isinstance(answer, Exception):
            raise answer
        return answer

    # -- the topics

    def by_name(self, name: str) -> object:
        assert name == SHARE_GROUP_STATE
        return "there" if self.has_topic else None

    async def ensure_internal(self, name: str) -> Any:
        assert name == SHARE_GROUP_STATE
        if self.topic_refusal is not None:
            raise CoordinatorError(self.topic_refusal)
        return SimpleNamespace(partitions=SimpleNamespace(present=lambda: ["first", "second"]))

    # -- the group coordinator

    async def ask(self, group_id: str, operation: Callable[[Any, Any, int], Any]) -> Any:
        assert group_id == "g"
        answer = operation(SimpleNamespace(share_administration=self), None, 0)
        if self.group_refusal is not None:
            raise CoordinatorError(self.group_refusal)
        return answer

    def pass_by(self, group_id: str, kept: Mapping[Any, int], ticket: object, now_ms: int) -> Errand | None:
        assert group_id == "g"
        self.heard.append(("past", dict(kept)))
        return self.passed

    def answered(
        self, errand: Errand, kept: Mapping[bytes, frozenset[int]], ticket: object, now_ms: int
    ) -> Mapping[bytes, frozenset[int]]:
        self.heard.append(("kept", errand, dict(kept)))
        return {topic_id: of - self.asked_again for topic_id, of in kept.items()}

    def forgotten(self, errand: Errand, gone: Any, ticket: object, now_ms: int) -> None:
        self.heard.append(("gone", errand, set(gone)))


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(World())

    asyncio.run(run())


def test_each_partition_begins_where_it_is_said_and_the_group_hears_which_are_kept() -> None:
    async def story(world: World) -> None:
        world.answers = {(T, 1): [REFUSED]}
        verdicts = await world.errands.initialize(ERRAND, {(T, 0): 50, (U, 3): 0})
        assert world.asked == [
            ("initialize", U, 3, 7, 0),
            ("initialize", T, 0, 7, 50),
            ("initialize", T, 1, 7, -1),
            ("initialize", T, 2, 7, -1),
        ]
        assert verdicts == {(U, 3): DONE, (T, 0): DONE, (T, 1): REFUSED, (T, 2): DONE}
        assert world.heard == [("kept", ERRAND, {U: frozenset({3}), T: frozenset({0, 2})})]
        assert world.opened == []

    told(story)


def test_what_was_asked_for_again_meanwhile_is_not_done() -> None:
    async def story(world: World) -> None:
        world.asked_again = frozenset({1, 3})
        verdicts = await world.errands.initialize(ERRAND, {})
        assert [verdicts[place].error for place in ALL] == [
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NONE,
        ]

    told(story)


def test_what_nobody_waits_for_is_begun_where_its_leader_chooses() -> None:
    async def story(world: World) -> None:
        world.errands.begin(ERRAND)
        await asyncio.gather(*world.tasks)
        assert world.asked == [("initialize", *place, 7, -1) for place in ALL]
        assert world.heard == [("kept", ERRAND, {U: frozenset({3}), T: frozenset({0, 1, 2})})]

    told(story)


def test_what_is_kept_of_a_later_epoch_is_passed() -> None:
    async def story(world: World) -> None:
        errand = Errand("g", 7, {T: frozenset({0, 1})})
        world.answers = {(T, 1): [FENCED, Summary(8, 4, 10, -1), DONE]}
        world.passed = Errand("g", 9, {T: frozenset({1})})
        assert await world.errands.initialize(errand, {(T, 1): 20}) == {(T, 0): DONE, (T, 1): DONE}
        assert world.asked[2:] == [("summarize", T, 1), ("initialize", T, 1, 9, 20)]
        assert world.heard == [("past", {(T, 1): 8}), ("kept", errand, {T: frozenset({0, 1})})]

    told(story)


@pytest.mark.parametrize("refusal", [None, ErrorCode.NOT_COORDINATOR])
def test_what_the_group_does_not_pass_stays_as_it_is_kept(refusal: ErrorCode | None) -> None:
    """A later errand has begun with it, or another coordinator has."""

    async def story(world: World) -> None:
        world.answers = {(T, 1): [FENCED, Summary(8, 4, 10, -1)]}
        world.group_refusal = refusal
        assert await world.errands.initialize(Errand("g", 7, {T: frozenset({1})}), {}) == {(T, 1): FENCED}
        assert [what for what, *_ in world.asked] == ["initialize", "summarize"]

    told(story)


def test_where_it_cannot_be_said_what_is_kept_nothing_is_passed() -> None:
    async def story(world: World) -> None:
        world.answers = {(T, 1): [FENCED, REFUSED]}
        verdicts = await world.errands.initialize(ERRAND, {})
        assert verdicts == {(U, 3): DONE, (T, 0): DONE, (T, 1): FENCED, (T, 2): DONE}
        assert world.heard[0] == ("past", {})

    told(story)


def test_a_topic_is_forgotten_where_nothing_of_it_is_kept() -> None:
    async def story(world: World) -> None:
        world.answers = {(U, 3): [UNKNOWN_PARTITION], (T, 1): [REFUSED]}
        verdicts = await world.errands.forget(ERRAND)
        assert world.asked == [("delete", *place) for place in ALL]
        assert verdicts == {(U, 3): UNKNOWN_PARTITION, (T, 0): DONE, (T, 1): REFUSED, (T, 2): DONE}
        assert world.heard == [("gone", ERRAND, {U})]
        nothing = Errand("g", 7, {T: frozenset()})
        assert await world.errands.forget(nothing) == {}
        assert world.heard[1:] == [("gone", nothing, {T})]

    told(story)


def test_a_group_hears_of_a_deletion_that_nobody_knows_the_end_of() -> None:
    """Otherwise it would be asked to wait for that for ever."""

    async def story(world: World) -> None:
        world.answers = {(T, 1): [LookupError("a mistake")]}
        with pytest.raises(LookupError):
            await world.errands.forget(ERRAND)
        assert world.heard == [("gone", ERRAND, set())]
        partly = Errand("g", 7, {T: frozenset({1}), U: frozenset()})
        world.answers = {(T, 1): [LookupError("a mistake")]}
        with pytest.raises(LookupError):
            await world.errands.forget(partly)
        assert world.heard[1:] == [("gone", partly, set())]

    told(story)


def test_the_first_who_asks_makes_the_topic() -> None:
    async def story(world: World) -> None:
        world.has_topic = False
        assert await world.errands.initialize(Errand("g", 7, {T: frozenset()}), {}) == {}
        assert world.opened == [], "nothing is asked"
        await world.errands.initialize(ERRAND, {})
        assert world.opened == ["first", "second"] and len(world.asked) == 4

    told(story)


def test_where_the_topic_cannot_be_made_all_partitions_are_refused() -> None:
    async def story(world: World) -> None:
        world.has_topic, world.topic_refusal = False, ErrorCode.COORDINATOR_NOT_AVAILABLE
        refused = dict.fromkeys(ALL, Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert await world.errands.initialize(ERRAND, {}) == refused
        assert await world.errands.forget(ERRAND) == refused
        assert world.asked == world.opened == []
        assert world.heard == [("kept", ERRAND, {}), ("gone", ERRAND, set())]

    told(story)


def test_a_group_that_is_being_loaded_has_forgotten_that_it_asked() -> None:
    async def story(world: World) -> None:
        world.group_refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        away = Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert await world.errands.initialize(ERRAND, {}) == dict.fromkeys(ALL, away), "it is not the group's"
        assert await world.errands.forget(ERRAND) == dict.fromkeys(ALL, DONE)
        assert len(world.heard) == 2

    told(story)


def test_many_are_asked_for_some_at_a_time() -> None:
    async def story(world: World) -> None:
        count = 2 * AT_ONCE + 1
        verdicts = await world.errands.forget(Errand("g", 7, {T: frozenset(range(count))}))
        assert verdicts == {(T, index): DONE for index in range(count)}
        assert [one[2] for one in world.asked] == list(range(count))
        assert world.most_under_way == AT_ONCE

    told(story)


@pytest.mark.parametrize("what", ["initialize", "forget"])
def test_it_goes_on_when_nobody_waits_any_more(what: str) -> None:
    async def story(world: World) -> None:
        world.gate = asyncio.Event()
        waiting = {
            "initialize": lambda: world.errands.initialize(ERRAND, {}),
            "forget": lambda: world.errands.forget(ERRAND),
        }
        client = asyncio.ensure_future(waiting[what]())
        while world.under_way < len(ALL):
            await asyncio.sleep(0)
        client.cancel()
        await asyncio.wait([client])
        world.gate.set()
        await asyncio.gather(*world.tasks)
        assert client.cancelled() and len(world.heard) == 1

    told(story)


@pytest.mark.parametrize("begun_by", ["a heartbeat", "an administrator"])
def test_nothing_is_forgotten_while_somebody_has_it_kept(begun_by: str) -> None:
    """A group that is deleted while its offsets are set: what came behind the deletion would be kept of no group, and
    the next one of that name would begin with it."""

    async def story(world: World) -> None:
        world.gate = asyncio.Event()
        if begun_by == "a heartbeat":
            world.errands.begin(ERRAND)
        else:
            world.tasks.append(asyncio.ensure_future(world.errands.initialize(ERRAND, {})))
        while world.under_way < len(ALL):
            await asyncio.sleep(0)
        forgetting = asyncio.ensure_future(world.errands.forget(ERRAND))
        for _ in range(20):
            await asyncio.sleep(0)
        assert {one[0] for one in world.asked} == {"initialize"}
        world.gate.set()
        assert await forgetting == dict.fromkeys(ALL, DONE)
        assert [one[0] for one in world.asked] == ["initialize"] * len(ALL) + ["delete"] * len(ALL)
        assert [one[0] for one in world.heard] == ["kept", "gone"]
        assert not world.errands._initializing, "nothing is left of it"

    told(story)


def test_one_that_was_given_up_is_not_waited_for() -> None:
    async def story(world: World) -> None:
        world.gate = asyncio.Event()
        world.errands.begin(ERRAND)
        while world.under_way < len(ALL):
            await asyncio.sleep(0)
        world.tasks[0].cancel()
        world.gate.set()
        assert await world.errands.forget(ERRAND) == dict.fromkeys(ALL, DONE)

    told(story)
