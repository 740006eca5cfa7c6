"""What the group coordinator has the share coordinator do for a group: keep partitions, and forget them.

The group's log says before what is to be done, and after it what was done; in between the share coordinator is asked,
some partitions at a time, whose records share a sync.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from broker.coordination.coordinators import CoordinatorError, Shards
from broker.coordination.share_groups.state import ShareStateKeeper
from broker.coordination.topics import TopicDirectory
from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.share.answers import Errand
from coordinator.machine import Outcome, Ticket
from coordinator.share_state.answers import Summary, Verdict
from coordinator.share_state.kept import ShareKey
from coordinator.share_state.port import NO_START_OFFSET
from protocol.errors import ErrorCode
from protocol.internal_topics import SHARE_GROUP_STATE

AT_ONCE = 64

Partition = tuple[bytes, int]
T = TypeVar("T")


class ShareErrands:
    """Those of one node. `own` runs work to its end."""

    def __init__(
        self,
        groups: Shards[GroupCoordinator],
        share_state: ShareStateKeeper,
        topics: TopicDirectory,
        own: Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"],
    ) -> None:
        self._groups = groups
        self._share_state = share_state
        self._topics = topics
        self._own = own
        self._initializing: dict[str, set[asyncio.Task[Any]]] = {}
        """By group: who has partitions kept."""

    def begin(self, errand: Errand) -> None:
        """Have partitions of a group kept, whoever serves them choosing where to start."""
        self._begun(errand, {})

    async def initialize(self, errand: Errand, start_offsets: Mapping[Partition, int]) -> dict[Partition, Verdict]:
        """Have partitions kept, from the offsets named. Goes on when nobody waits any more."""
        verdicts: dict[Partition, Verdict] = await asyncio.shield(self._begun(errand, start_offsets))
        return verdicts

    def _begun(self, errand: Errand, start_offsets: Mapping[Partition, int]) -> "asyncio.Task[Any]":
        group_id = errand.group_id
        task = self._own(self._initialize(errand, start_offsets))
        self._initializing.setdefault(group_id, set()).add(task)
        task.add_done_callback(lambda _: self._ended(group_id, task))
        return task

    def _ended(self, group_id: str, task: "asyncio.Task[Any]") -> None:
        running = self._initializing[group_id]
        running.discard(task)
        if not running:
            del self._initializing[group_id]

    async def forget(self, errand: Errand) -> dict[Partition, Verdict]:
        """Have all partitions of an errand forgotten. Goes on when nobody waits any more."""
        verdicts: dict[Partition, Verdict] = await asyncio.shield(self._own(self._forget(errand)))
        return verdicts

    async def _initialize(self, errand: Errand, start_offsets: Mapping[Partition, int]) -> dict[Partition, Verdict]:
        verdicts = await self._kept(errand, start_offsets)
        fenced = [one for one, verdict in verdicts.items() if verdict.error is ErrorCode.FENCED_STATE_EPOCH]
        if fenced:
            verdicts.update(await self._initialize_past(errand.group_id, fenced, start_offsets))
        kept: dict[bytes, frozenset[int]] = {}
        for (topic_id, partition), verdict in verdicts.items():
            if verdict.error is ErrorCode.NONE:
                kept[topic_id] = kept.get(topic_id, frozenset()) | {partition}

        def answered(machine: GroupCoordinator, ticket: Ticket[Assignment], now_ms: int) -> Outcome[Assignment]:
            return machine.share_administration.answered(errand, kept, ticket, now_ms)

        made: Assignment = {}
        # A shard that is loaded again has forgotten that it asked, and asks again.
        with contextlib.suppress(CoordinatorError):
            made = await self._groups.ask(errand.group_id, answered)
        for (topic_id, partition), verdict in verdicts.items():
            if verdict.error is ErrorCode.NONE and partition not in made.get(topic_id, frozenset()):
                verdicts[topic_id, partition] = Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return verdicts

    async def _kept(self, errand: Errand, start_offsets: Mapping[Partition, int]) -> dict[Partition, Verdict]:
        async def initialize(one: Partition) -> Verdict:
            key, start = ShareKey(errand.group_id, *one), start_offsets.get(one, NO_START_OFFSET)
            return await self._share_state.initialize(key, state_epoch=errand.state_epoch, start_offset=start)

        return await self._each(errand, initialize)

    async def _initialize_past(
        self, group_id: str, fenced: Sequence[Partition], start_offsets: Mapping[Partition, int]
    ) -> dict[Partition, Verdict]:
        """What is kept is of a later epoch than the group's, where a power cut took the end of the group's log: without
        this the group would have nothing of these partitions until its epoch has come that far. The group says first,
        in its log, that its epoch is later still: what somebody else has begun with since, who coordinates the group by
        now or has asked more than once, is left alone."""
        kept = await self._some_at_a_time(fenced, lambda one: self._share_state.summarize(ShareKey(group_id, *one)))
        epochs = {one: told.state_epoch for one, told in kept.items() if isinstance(told, Summary)}

        def pass_by(machine: GroupCoordinator, ticket: Ticket[Errand | None], now_ms: int) -> Outcome[Errand | None]:
            return machine.share_administration.pass_by(group_id, epochs, ticket, now_ms)

        try:
            errand = await self._groups.ask(group_id, pass_by)
        except CoordinatorError:
            return {}
        return {} if errand is None else await self._kept(errand, start_offsets)

    async def _forget(self, errand: Errand) -> dict[Partition, Verdict]:
        """The group has nothing initialised by now. Who was asked before to keep something is waited for: what came
        behind this would be kept of a group that is gone."""
        verdicts = {}
        try:
            if running := self._initializing.get(errand.group_id):
                await asyncio.wait(running)
            verdicts = await self._each(errand, lambda one: self._share_state.delete(ShareKey(errand.group_id, *one)))
        finally:
            await self._say_forgotten(errand, verdicts)
        return verdicts

    async def _say_forgotten(self, errand: Errand, verdicts: Mapping[Partition, Verdict]) -> None:
        failed = {topic_id for (topic_id, _), verdict in verdicts.items() if not is_gone(verdict)}
        gone = [] if not verdicts and any(errand.partitions.values()) else errand.partitions.keys() - failed

        def forgotten(machine: GroupCoordinator, ticket: Ticket[bool], now_ms: int) -> Outcome[bool]:
            return machine.share_administration.forgotten(errand, gone, ticket, now_ms)

        with contextlib.suppress(CoordinatorError):
            await self._groups.ask(errand.group_id, forgotten)

    async def _each(
        self, errand: Errand, ask: Callable[[Partition], Coroutine[Any, Any, Verdict]]
    ) -> dict[Partition, Verdict]:
        wanted = [(topic_id, one) for topic_id, of in errand.partitions.items() for one in sorted(of)]
        error = await self._ready() if wanted else ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return dict.fromkeys(wanted, Verdict(error))
        return await self._some_at_a_time(wanted, ask)

    async def _some_at_a_time(
        self, wanted: Sequence[Partition], ask: Callable[[Partition], Coroutine[Any, Any, T]]
    ) -> dict[Partition, T]:
        told: dict[Partition, T] = {}
        for first in range(0, len(wanted), AT_ONCE):
            some = wanted[first : first + AT_ONCE]
            told.update(zip(some, await asyncio.gather(*map(ask, some)), strict=True))
            await asyncio.sleep(0)
        return told

    async def _ready(self) -> ErrorCode:
        """The first who asks makes the topic."""
        if self._topics.by_name(SHARE_GROUP_STATE) is None:
            try:
                found = await self._topics.ensure_internal(SHARE_GROUP_STATE)
            except CoordinatorError as refused:
                return refused.error
            self._share_state.shards.open(found.partitions.present())
        return ErrorCode.NONE


def is_gone(verdict: Verdict) -> bool:
    """Whether nothing is kept any more; of a deleted topic the share coordinator has forgotten everything."""
    return verdict.error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
