"""Coordinator shards as the broker sees them: questions that are awaited.

`Shards` holds the shards of one internal topic. Nothing in here decides anything; it connects machines
(`coordinator.runtime`) with partitions, the event loop and the clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from broker.coordination.key_partition import partition_for
from broker.coordination.releases import Releases
from broker.partitions.errors import storage_error
from broker.partitions.partition import Partition
from broker.partitions.shard_log import PartitionShardLog
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.steady_clock import LoopTimer, SteadyClock
from broker.process.time_slice import TimeSlice
from coordinator.loading import UnreadableLog
from coordinator.machine import A, Machine, Outcome, Ticket
from coordinator.runtime import NotReady, Shard, ShardState
from protocol.errors import ErrorCode
from storage.log import LogDamaged

_log = EventLog("coordinators")

M = TypeVar("M", bound=Machine)

WAIT_FOR_SHARD_MS = 100
NAMED_MOST = 10
"""Records of a log that are ignored and named; of others there is only the number."""
MOST_READ_BYTES = 1 << 20
"""Of a log that is loaded, held in memory at a time, whatever the setting says."""


class CoordinatorError(Exception):
    """A coordinator did not take the request: 14, 15, 16, or what the log said."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class FutureTicket(Generic[A]):
    """A ticket with a future. A request whose connection closed gets no answer. `releases` has many answers take
    turns."""

    def __init__(self, releases: Releases | None = None) -> None:
        self.future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._releases = releases

    def release(self, answer: A) -> None:
        if self._releases is None:
            self._deliver(answer)
        else:
            self._releases.put(self._deliver, answer)

    def _deliver(self, answer: A) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def refuse(self, error: ErrorCode) -> None:
        if not self.future.done():
            self.future.set_exception(CoordinatorError(error))


class Shards(Generic[M]):
    """All shards of one internal topic in this node.

    `make(index)` makes an empty machine for one partition. `partition_count` is what the topic has, or will have
    when it is made. `publish(partition)` commits what needs no sync. `opened(index, shard)` is called for each new
    shard before it loads, `given_up(index)` for one that is another node's from now on. Until `open` was called there
    is no shard; a question then waits a moment for one if the topic `exists`, and is answered NOT_COORDINATOR if not,
    or if another node leads the partition (`led`). `compacted`: see `Shard`.
    """

    def __init__(
        self,
        *,
        topic: str,
        partition_count: Callable[[], int],
        make: Callable[[int], M],
        environment: Environment,
        load_bytes: Callable[[], int] = lambda: 1 << 20,
        opened: Callable[[int, Shard[M]], None] | None = None,
        exists: Callable[[], bool] = lambda: False,
        publish: Callable[[Partition], None] = lambda partition: None,
        led: Callable[[int], bool] = lambda index: True,
        given_up: Callable[[int], None] = lambda index: None,
        compacted: bool = True,
    ) -> None:
        self.topic = topic
        self.led = led
        self._given_up = given_up
        self._compacted = compacted
        self._partition_count = partition_count
        self._make = make
        self._environment = environment
        self.clock = SteadyClock(environment)
        self.timer = LoopTimer(self.clock)
        self._load_bytes = load_bytes
        self._opened = opened
        self._exists = exists
        self._publish = publish
        self._partitions: dict[int, Partition] = {}
        self._changed: asyncio.Future[None] | None = None
        self._shards: dict[int, Shard[M]] = {}
        self._releases: dict[int, Releases] = {}
        self._loading: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self.confirm: Callable[[Partition], Awaitable[bool]] | None = None
        """Where others may lead a partition by now: whether nobody does. It is asked before an answer goes out with
        which nothing was written."""

    def partition_for(self, key: str) -> int:
        """The partition that a group id or transactional id belongs to."""
        return partition_for(key, self._partition_count())

    def all(self) -> list[Shard[M]]:
        """Every shard, in partition order."""
        return [self._shards[index] for index in sorted(self._shards)]

    def indexes(self) -> list[int]:
        """All partitions of the topic that this node leads, with a shard or (yet) without; none while there is no
        topic."""
        return [index for index in range(self._partition_count()) if self.led(index)] if self._exists() else []

    def indexed(self) -> list[tuple[int, Shard[M]]]:
        """Every shard with its partition, in order."""
        return [(index, self._shards[index]) for index in sorted(self._shards)]

    def shard_of(self, key: str) -> Shard[M] | None:
        """The shard a key belongs to, if it is in this node."""
        return self._shards.get(self.partition_for(key))

    def shard(self, index: int) -> Shard[M] | None:
        """The shard over one partition, if it is in this node."""
        return self._shards.get(index)

    def partition(self, index: int) -> Partition:
        """What is behind the shard over a partition that has one."""
        return self._partitions[index]

    def is_offline(self, index: int) -> bool:
        """Whether the log of a partition is damaged: nothing of it is served until it is repaired. What all shards have
        is listed without it, as Kafka lists what it leads."""
        shard = self._shards.get(index)
        return shard is not None and shard.state is ShardState.CLOSED

    # -- asking ----------------------------------------------------------------------------------------------

    async def ask(self, key: str, operation: Callable[[M, Ticket[A], int], Outcome[A]]) -> A:
        """Run an operation on the shard of `key`; returns its answer once all it saw is durable.

        Cancelling the wait never cancels the operation. Raises `CoordinatorError`.
        """
        return await self.ask_partition(self.partition_for(key), operation)

    async def ask_partition(self, index: int, operation: Callable[[M, Ticket[A], int], Outcome[A]]) -> A:
        """As `ask`, for a shard by its partition."""
        shard = self._shards.get(index)
        if shard is None or shard.state is ShardState.LOADING:
            shard = await self.wait_until_ready(index)
        self._check_is_ours(index)
        ticket: FutureTicket[A] = FutureTicket(self._releases[index])
        end_offset = shard.log.end_offset
        try:
            shard.submit(lambda machine, now_ms: operation(machine, ticket, now_ms), ticket)
        except NotReady as not_ready:
            raise CoordinatorError(not_ready.error) from not_ready
        has_written = shard.log.end_offset != end_offset
        if not ticket.future.done():
            self.publish(index)
        answer = await ticket.future
        if self.confirm is not None and not has_written:
            partition = self._partitions.get(index)
            if partition is None or not await self.confirm(partition):
                raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
        return answer

    def publish(self, index: int) -> None:
        """A request waits for what was just appended there: commit it at once if no sync is needed for that."""
        self._publish(self._partitions[index])

    async def wait_until_ready(self, index: int) -> Shard[M]:
        """The shard over a partition, active. A log that was just made, or one that loads, is waited for a moment
        rather than have the client come back 100 ms later. Raises `CoordinatorError` (14, 16)."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_FOR_SHARD_MS / 1000
        while True:
            shard = self._shards.get(index)
            if shard is not None and shard.state is ShardState.ACTIVE:
                self._check_is_ours(index)
                return shard
            if shard is None and not (self._exists() and self.led(index)):
                raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
            if shard is not None and shard.state is ShardState.CLOSED:
                raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
            left = deadline - loop.time()
            if left <= 0:
                raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            await self._wait_for_change(left)

    def _check_is_ours(self, index: int) -> None:
        """What is answered without a commit may be old where somebody else has this node's place by now: offsets would
        be behind, and a producer would be told that it is fenced. Raises `CoordinatorError`."""
        partition = self._partitions.get(index)
        if partition is not None and partition.refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)

    async def _wait_for_change(self, timeout: float | None) -> None:
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._changed], timeout=timeout)

    def _shards_changed(self) -> None:
        """A shard was opened, is loaded, or is gone: requests that wait for one look again."""
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    # -- life ------------------------------------------------------------------------------------------------

    def open(self, partitions: Sequence[Partition]) -> None:
        """Start a shard over each partition that this node leads. An empty log is loaded at once, the rest in the
        background."""
        for partition in partitions:
            if partition.index not in self._shards and self.led(partition.index):
                self._partitions[partition.index] = partition
                self._open_one(partition.index, PartitionShardLog(partition), offline=partition.offline is not None)

    def _open_one(self, index: int, log: PartitionShardLog, *, offline: bool = False) -> None:
        shard = Shard(
            lambda: self._make(index),
            log,
            self.clock,
            self.timer,
            name=f"{self.topic}-{index}",
            compacted=self._compacted,
        )
        self._shards[index] = shard
        self._releases[index] = Releases(self._environment.time_slice())
        shard.on_reload = self._load_in_background
        shard.on_bug = lambda error: _log.bug("an operation failed", error, shard=shard.name)
        shard.on_ignored = lambda offset, reason: self._ignored(shard, index, offset, reason)
        shard.on_unreadable = lambda offset, reason: self._unreadable(index, offset, reason)
        if self._opened is not None:
            self._opened(index, shard)
        if offline:
            # Nothing is known of its keys: NOT_COORDINATOR to all of them, until the log is repaired.
            shard.close()
            self._shards_changed()
        elif log.start_offset == log.end_offset:
            shard.load_slice(self._read_bytes())
            self._shards_changed()
        else:
            self._load_in_background()

    def _ignored(self, shard: Shard[M], index: int, offset: int, reason: str) -> None:
        if shard.ignored <= NAMED_MOST:
            place = {"topic": self.topic, "partition": index, "offset": offset}
            _log.warning("a record is ignored", **place, reason=reason)

    def _unreadable(self, index: int, offset: int, reason: str) -> None:
        """Each by name: somebody is refused what is his."""
        place = {"topic": self.topic, "partition": index, "offset": offset}
        _log.error("a record cannot be read; what depends on it is refused", **place, reason=reason)

    def _load_in_background(self) -> None:
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        """One shard after the other, and one slice of time for all: however many there are, others have their turns."""
        time_slice = self._environment.time_slice()
        while True:
            # Another turn of the loop before each slice, the first one too.
            await time_slice.wait_for_turn()
            shard = next((shard for shard in self.all() if shard.state is ShardState.LOADING), None)
            if shard is None:
                return
            try:
                while shard is not None and shard.load_slice(self._read_bytes(), self._spent(shard, time_slice)):
                    _log.debug("loaded", shard=shard.name)
                    if shard.ignored > NAMED_MOST:
                        _log.warning("records were ignored", shard=shard.name, count=shard.ignored)
                    self._shards_changed()
                    shard = next((shard for shard in self.all() if shard.state is ShardState.LOADING), None)
            except LogDamaged as damaged:
                storage_error(damaged)
                self._shards_changed()
            except (UnreadableLog, OSError) as unreadable:
                assert shard is not None
                if isinstance(unreadable, OSError):
                    self._failure = unreadable
                _log.error("a log cannot be read; nothing in it is served", shard=shard.name, reason=str(unreadable))
                self._shards_changed()
            except Exception as error:  # noqa: BLE001  one shard that cannot be loaded is not to keep the others closed
                self._not_loaded(error)

            if shard is not None and isinstance(shard.log, PartitionShardLog):
                await shard.log.wait_until_here()

    def _spent(self, shard: Shard[M], time_slice: TimeSlice) -> Callable[[], bool]:
        log = shard.log
        return lambda: time_slice.spent() or (isinstance(log, PartitionShardLog) and log.is_waiting)

    def _read_bytes(self) -> int:
        return min(self._load_bytes(), MOST_READ_BYTES)

    def _not_loaded(self, error: Exception) -> None:
        """A log that contradicts itself; or a shard went to work once it was loaded, and the disk refused a record."""
        self._failure = error
        what = {"message": "a coordinator could not be loaded", "exception": error}
        asyncio.get_running_loop().call_exception_handler(what)
        self._shards_changed()

    @property
    def are_all_here(self) -> bool:
        """Whether this node leads all partitions of the topic."""
        return not self._exists() or len(self.indexes()) == self._partition_count()

    @property
    def all_loaded(self) -> bool:
        """Whether every partition of the topic has its shard, and each is active. True while there is no topic."""
        expected = len(self.indexes())
        active = sum(1 for shard in self._shards.values() if shard.state is ShardState.ACTIVE)
        return active >= max(expected, len(self._shards))

    async def wait_until_loaded(self) -> None:
        """Until `all_loaded`, which is never where a log is damaged. Raises what a load raised (a log that contradicts
        itself)."""
        while not self.all_loaded:
            if self._failure is not None:
                raise self._failure
            await self._wait_for_change(None)

    def give_up(self, index: int) -> None:
        """Another node leads the partition from now on. Waiting requests are answered NOT_COORDINATOR."""
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.close()
            self._releases.pop(index).flush()
            del self._partitions[index]
            self._given_up(index)
        self._shards_changed()

    def hold_no_requests(self) -> None:
        """For a stop: no request waits for others any more, only for the disk."""
        for shard in self._shards.values():
            shard.hold_no_requests()

    def close(self) -> None:
        """Close every shard. Waiting requests are answered NOT_COORDINATOR."""
        if self._loading is not None:
            self._loading.cancel()
        for index in sorted(self._shards):
            self._shards[index].close()
            self._releases[index].flush()
        self._shards.clear()
        self._shards_changed()
