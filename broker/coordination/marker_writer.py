"""The way of a marker to a partition that this node leads: of a node that is alone, to all there are."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from broker.coordination.coordinators import FutureTicket, Shards
from broker.coordination.releases import Releases
from broker.coordination.topics import TopicDirectory
from broker.journal.journal import Journal
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.machine import Marker
from coordinator.runtime import NotReady
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS

Done = Callable[[ErrorCode], None]

_NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class LocalMarkerWriter:
    """`coordinator.ports.MarkerWriter`. `publish(partition)` commits what needs no sync."""

    def __init__(
        self,
        *,
        topics: TopicDirectory,
        groups: Shards[GroupCoordinator],
        environment: Environment,
        publish: Callable[[Partition], None],
        of_coordinator: bool = False,
        lifts: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._environment = environment
        self._publish = publish
        self._journal = journal
        self._of_coordinator = of_coordinator
        """Whether the markers are those of the coordinator in this node."""
        self._lifts = lifts
        """Whether there is no other coordinator: what fences ours cannot be one."""
        self._releases = Releases(environment.time_slice())
        """One sync may be that of thousands of markers, each of which calls for a COMPLETE: some in each turn."""
        self._uncommitted = UncommittedMarkers(self._releases)

    def write(self, topic: str, partition: int, topic_id: bytes | None, marker: Marker, done: Done) -> None:
        """A topic whose id is gone answers UNKNOWN_TOPIC_ID; one without an id in the record (TV0) goes by its name. A
        log that is not open yet is opened for its marker."""
        found = self._topics.by_name(topic) if topic_id is None else self._topics.by_id(topic_id)
        if found is not None and found.partitions.is_closed(partition):
            self._topics.to_open.after_opening(
                found, partition, lambda: self._write(topic, partition, topic_id, marker, done)
            )
        else:
            self._write(topic, partition, topic_id, marker, done)

    def _write(self, topic: str, partition: int, topic_id: bytes | None, marker: Marker, done: Done) -> None:
        topics = self._topics
        found = topics.by_name(topic) if topic_id is None else topics.by_id(topic_id)
        if found is not None and self._lifts:
            marker = _not_fenced(topics.partition_by_id(found.topic_id, partition), marker)
        if found is None:
            done(ErrorCode.UNKNOWN_TOPIC_ID)
        elif found.name == CONSUMER_OFFSETS:
            self._write_to_group_shard(partition, marker, done)
        else:
            leader = topics.partition_by_id(found.topic_id, partition)
            if leader is None:
                done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._write_to_partition(leader, marker, done)

    def _write_to_partition(self, partition: Partition, marker: Marker, done: Done) -> None:
        now_ms = self._environment.wall_ms()
        try:
            offset = partition.append_marker(marker, now_ms)
        except AppendError as refused:
            self._note(marker, (partition.topic, partition.index, -1), refused.code, now_ms)
            done(refused.code)
            return
        self._note(marker, (partition.topic, partition.index, offset), ErrorCode.NONE, now_ms)
        self._publish(partition)
        self._uncommitted.wait(partition, offset + 1, done)

    def _write_to_group_shard(self, index: int, marker: Marker, done: Done) -> None:
        """Through the machine, so that the offsets are there when the marker is (KAFKA-17507)."""
        shard = self._groups.shard(index)
        if shard is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        ticket = _MarkerTicket(self._releases, done)
        try:
            shard.submit(lambda machine, now_ms: machine.write_marker(marker, ticket, now_ms), ticket)
        except NotReady:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._note(marker, (CONSUMER_OFFSETS, index, -1), ErrorCode.NONE, self._environment.wall_ms())
            self._groups.publish(index)

    def _note(self, marker: Marker, place: tuple[str, int, int], error: ErrorCode, now_ms: int) -> None:
        if self._journal is not None:
            self._journal.marked(
                marker.producer_id,
                marker.producer_epoch,
                place,
                commit=marker.commit,
                by_operator=not self._of_coordinator,
                error=error.name,
                now_ms=now_ms,
            )


def _not_fenced(partition: Partition | None, marker: Marker) -> Marker:
    """An operator may have written a marker with the epoch of a coordinator that there will never be. It would fence
    ours from this producer for good, and the transactional id would hang."""
    if partition is not None:
        known_epoch = partition.derived.producers.coordinator_epoch(marker.producer_id)
        if known_epoch > marker.coordinator_epoch:
            return replace(marker, coordinator_epoch=known_epoch)
    return marker


class UncommittedMarkers:
    """Markers that are appended and not yet durable, by partition.

    Watches instead of awaiting: COMPLETE is then appended in the very turn in which the markers became durable, unless
    they are very many, and the same cycle of syncs takes it along. A partition that is deleted meanwhile wakes its
    watchers for the last time.
    """

    def __init__(self, releases: Releases) -> None:
        self._releases = releases
        self._waiting: dict[Partition, deque[tuple[int, Done]]] = {}
        self._watchers: dict[Partition, Callable[[], None]] = {}

    def wait(self, partition: Partition, end_offset: int, done: Done) -> None:
        """Call `done` when everything below `end_offset` is committed, or the topic is gone."""
        if partition.high_watermark >= end_offset:
            done(ErrorCode.NONE)
            return
        if partition not in self._waiting:
            self._waiting[partition] = deque()
            self._watchers[partition] = lambda: self._moved(partition)
            partition.watch(self._watchers[partition])
        self._waiting[partition].append((end_offset, done))

    def _moved(self, partition: Partition) -> None:
        waiting = self._waiting[partition]
        ready = []
        while waiting and (partition.discarded or waiting[0][0] <= partition.high_watermark):
            ready.append(waiting.popleft())
        if not waiting:
            self._forget(partition)
        for end_offset, done in ready:
            committed = end_offset <= partition.high_watermark
            self._releases.put(done, ErrorCode.NONE if committed else _of_gone(partition))

    def _forget(self, partition: Partition) -> None:
        del self._waiting[partition]
        partition.unwatch(self._watchers.pop(partition))


def _of_gone(partition: Partition) -> ErrorCode:
    """There is nobody left to tell, or another node is to be told."""
    deleted = partition.gone is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.UNKNOWN_TOPIC_ID if deleted else partition.gone


class _MarkerTicket:
    def __init__(self, releases: Releases, done: Done) -> None:
        self._releases = releases
        self._done = done

    def release(self, answer: ErrorCode) -> None:
        self._releases.put(self._done, ErrorCode.NONE)

    def refuse(self, error: ErrorCode) -> None:
        self._done(ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _NOT_NOW else error)


def write_marker(
    writer: LocalMarkerWriter, topic: str, partition: int, marker: Marker, topic_id: bytes | None = None
) -> "asyncio.Future[ErrorCode]":
    """One marker, to be awaited: for callers other than a `MarkerDriver` (other nodes, operators, start-up)."""
    ticket: FutureTicket[ErrorCode] = FutureTicket()
    writer.write(topic, partition, topic_id, marker, ticket.release)
    return ticket.future
