"""Partitions of other nodes that readers read here (KIP-392), out of the store.

Rule 1. One is followed from when somebody first wants to read it for as long as somebody does, by looking into the
        store again and again. Nothing of it is this node's: it is never written here.
Rule 2. What is read is committed, and outlives a failover of the store (`SharedStore.look`). A reader that has seen
        more of it elsewhere waits for a look that begins behind its request.
Rule 3. A node that could not look for as long as its place may be taken says so: its readers go to the leader.
"""

import asyncio
from collections.abc import Callable

from broker.coordination.across_nodes.nodes import Nodes
from broker.partitions.followed_partition import FollowedPartition
from broker.partitions.topic import Topic
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.bringing import Brought, Own
from broker.shared.partitions import Committed, LogMoved, SharedPartitions
from storage.log import LogDamaged, StorageFailed
from storage.shared.store import Fenced, StoreRefused, StoreUnreachable
from storage.stretch import Stretch

LOOK_S = 0.1
"""How far a reader here may be behind one of the leader's, where nothing else holds it up, ..."""
LOOKS_A_SECOND = 250
"""... and where so few are followed that all can be looked at as often."""
OPENED_AT_ONCE = 8
OPENED_IN_S = 30.0
"""Or its readers go to the leader."""
IDLE_MS, WATCHED_MS = 10_000, 600_000
"""How long one is followed that nobody asks for; and that a fetch session has looked at, which asks again when there is
something new. Its client may have left it open, and read elsewhere."""
TAKEN_AT_ONCE = 500
"""Batches."""
EXPIRED_EACH_MS = 60_000

Make = Callable[..., FollowedPartition]

_log = EventLog("topics")


class FollowedPartitions:
    """Those of one node. `find` gives a topic that stands by its id; `silent_ms` how long it may not have looked."""

    def __init__(
        self,
        nodes: Nodes,
        store: SharedPartitions,
        environment: Environment,
        find: Callable[[bytes], Topic | None],
        *,
        make: Make,
        silent_ms: Callable[[], int],
        own: Own,
    ) -> None:
        self._nodes = nodes
        self._store = store
        self._environment = environment
        self._find = find
        self._make = make
        self._silent_ms = silent_ms
        self._own = own
        self._followed: dict[tuple[bytes, int], _Followed] = {}
        self.looks = 0
        """How many have begun."""
        self._opening = asyncio.Semaphore(OPENED_AT_ONCE)

    def __len__(self) -> int:
        return len(self._followed)

    def partition(self, topic: Topic, index: int, offset: int, since: int) -> FollowedPartition | Brought:
        """To read at an offset, for a request that has come after so many looks had begun; or what to wait for before
        this is asked again, which raises `OSError` where it cannot be had."""
        now_ms = self._environment.monotonic_ms()
        one = self._followed.get((topic.topic_id, index))
        if one is None:
            one = self._followed[topic.topic_id, index] = _Followed(topic, index, now_ms)
            one.task = self._own(self._follow(one))
        one.asked_ms = now_ms
        partition = one.partition
        if partition is not None and (offset <= partition.end_offset or one.look > since):
            partition.leader_epoch = self._nodes.epoch(topic.topic_id, index)
            return partition
        one.hurry()
        return Brought(one.looked)

    async def _follow(self, one: "_Followed") -> None:
        reason: BaseException | None = None
        try:
            while self._is_wanted(one):
                is_all = await self._look_in_time(one)
                self._expire(one)
                if is_all:
                    await one.pause(max(LOOK_S, len(self._followed) / LOOKS_A_SECOND))
        except (LogMoved, LogDamaged, StorageFailed, StoreRefused, Fenced, StoreUnreachable) as error:
            reason = error
            if one.partition is not None:
                _log.info("a partition of another node is not followed any more", partition=one.name, reason=error)
        except asyncio.CancelledError as error:
            self._end(one, error)
            raise
        self._end(one, reason)

    def _end(self, one: "_Followed", reason: BaseException | None) -> None:
        del self._followed[one.place]
        one.end(reason)

    def _expire(self, one: "_Followed") -> None:
        """Housekeeping knows what this node leads, and nothing else."""
        now_ms = self._environment.monotonic_ms()
        if one.partition is not None and now_ms - one.expired_ms > EXPIRED_EACH_MS:
            one.expired_ms = now_ms
            one.partition.expire_producers(self._environment.wall_ms())

    def _is_wanted(self, one: "_Followed") -> bool:
        topic_id, index = one.place
        if self._find(topic_id) is not one.topic or self._nodes.leads(topic_id, index):
            return False
        return self._environment.monotonic_ms() - one.asked_ms <= (WATCHED_MS if one.is_watched else IDLE_MS)

    async def _look_in_time(self, one: "_Followed") -> bool:
        """Whether there is nothing more. A store that does not answer is one that cannot be reached. Raises what ends
        it."""
        try:
            async with asyncio.timeout(OPENED_IN_S if one.partition is None else self._silent_ms() / 1000):
                return await self._look(one)
        except TimeoutError as late:
            raise StoreUnreachable("the store does not answer") from late  # Rule 3

    async def _look(self, one: "_Followed") -> bool:
        began_ms = self._environment.monotonic_ms()
        self.looks += 1
        look, is_all = self.looks, True
        try:
            if one.partition is None:
                async with self._opening:
                    one.partition = await self._opened(one)
            else:
                found = await self._store.look_behind(one.partition.shared, *one.place)
                await self._take(one.partition, found)
                is_all = found.is_all
        except StoreUnreachable as away:
            if one.partition is None or self._environment.monotonic_ms() - one.looked_ms > self._silent_ms():
                raise  # Rule 3
            one.answer(OSError(str(away)))
            return True
        one.looked_ms = began_ms
        if is_all:
            one.look = look
        one.answer(None)
        return is_all

    async def _opened(self, one: "_Followed") -> FollowedPartition:
        log = await self._store.look_at(one.topic.name, *one.place)
        partition = self._make(
            topic=one.topic.name,
            topic_id=one.topic.topic_id,
            index=one.index,
            log=log,
            leader_epoch=self._nodes.epoch(*one.place),
            config=one.topic.config,
        )
        log.on_readable = partition.became_readable
        return partition

    async def _take(self, partition: FollowedPartition, found: Committed) -> None:
        """A slice at a time: much may have been written since the last look."""
        time_slice, tail = self._environment.time_slice(), found.tail
        for first in range(0, len(tail), TAKEN_AT_ONCE):
            piece = Stretch(tail.batches[first : first + TAKEN_AT_ONCE], tail.placed[first : first + TAKEN_AT_ONCE])
            is_last = first + TAKEN_AT_ONCE >= len(tail)
            partition.take(piece, found.next_offset if is_last else piece.placed[-1].last_offset + 1)
            if time_slice.spent():
                await time_slice.wait_for_turn()
        if found.start_offset > partition.log_start_offset:
            partition.begin_at(found.start_offset)


class _Followed:
    """One of them."""

    def __init__(self, topic: Topic, index: int, now_ms: int) -> None:
        self.topic, self.index = topic, index
        self.place = topic.topic_id, index
        self.asked_ms = self.expired_ms = now_ms
        self.partition: FollowedPartition | None = None
        self.looked_ms = self.look = -1
        """When the last look began, and which was the last that has brought all there was."""
        self.looked = _future()
        """Of the next look that ends."""
        self._hurried = _future()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_watched(self) -> bool:
        """Whether a fetch session has looked at it, or a fetch waits for it to move."""
        return self.partition is not None and self.partition.is_watched

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.index}"

    def hurry(self) -> None:
        """Somebody waits."""
        if not self._hurried.done():
            self._hurried.set_result(None)

    async def pause(self, seconds: float) -> None:
        """Until somebody waits, or so long at most."""
        if not self._hurried.done():
            await asyncio.wait([self._hurried], timeout=seconds)
        if self._hurried.done():
            self._hurried = _future()

    def answer(self, error: OSError | None) -> None:
        """A look is over."""
        done, self.looked = self.looked, _future()
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
            done.exception()  # Looked at: there may be nobody who waits.

    def end(self, reason: BaseException | None) -> None:
        """It is followed no longer: who watches it looks again, and who waits is refused."""
        self.answer(OSError(f"{self.name} is not followed: {reason!r}"))
        if self.partition is not None:
            self.partition.discard()


def _future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()
