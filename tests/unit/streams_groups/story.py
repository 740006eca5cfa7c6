"""A group coordinator on a log in memory, topics that a test makes, and members of a streams group: the tools of the
stories in this folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.streams.answers import StreamsAnswer
from coordinator.groups.streams.heartbeats import StreamsSaid
from coordinator.groups.streams.member import Tasks
from coordinator.groups.streams.topology import Copartitioned, InternalTopic, Subtopology, Topology
from coordinator.runtime import Shard
from protocol.errors import ErrorCode
from protocol.messages.streams.groups import DescribedStreamsGroup, StreamsGroupHeartbeatResponse, StreamsTaskIds
from tests.harness.group_settings import FixedGroupSettings
from tests.harness.memory_shard_log import MemoryShardLog
from tests.unit.consumer_groups.story import Topics
from tests.unit.groups.story import Story

GROUP = "orders"
REBALANCE_MS = 60_000
Share = dict[str, list[int]]
"""Subtopology → partitions."""


def internal(name: str, partitions: int = 0) -> InternalTopic:
    return InternalTopic(name, partitions, 0, ())


def reads(
    *sources: str,
    subtopology_id: str = "0",
    keeps: Sequence[str] = (),
    repartition: Sequence[InternalTopic] = (),
    writes: Sequence[str] = (),
    alike: Sequence[Copartitioned] = (),
) -> Subtopology:
    """A subtopology that reads these topics."""
    changelogs = tuple(map(internal, keeps))
    return Subtopology(subtopology_id, sources, changelogs, tuple(writes), tuple(repartition), tuple(alike))


def application(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch, subtopologies)


def tasks(active: Mapping[str, Sequence[int]], standby: Mapping[str, Sequence[int]] | None = None) -> Tasks:
    """As members and assignors name them."""
    kept = {one: frozenset(of) for one, of in (standby or {}).items()}
    return Tasks({one: frozenset(of) for one, of in active.items()}, kept, {})


def share(ids: Sequence[StreamsTaskIds]) -> Share:
    return {one.subtopology_id: one.partitions for one in ids}


class StreamsStory(Story):
    """One shard, topics, and members of a streams group."""

    def __init__(self, settings: FixedGroupSettings | None = None, *, durable: bool = True, **topics: int) -> None:
        self.topics = Topics()
        for name, partitions in topics.items():
            self.topics.set(name, partitions)
        super().__init__(settings, durable=durable)
        self.settings.streams.assignment_ms = 0
        self.wanted: list[tuple[str, int]] = []
        """The internal topics that the last heartbeat has asked for, with their partitions."""

    def _shard(self, log: MemoryShardLog) -> Shard[GroupCoordinator]:
        make = lambda: GroupCoordinator(self.settings, None, self.topics)  # noqa: E731
        shard = Shard(make, log, self.time, self.time, name="groups-0", compacted=True)
        while not shard.load_slice(1 << 20):
            pass
        return shard

    # -- members ---------------------------------------------------------------------------------------------

    def say(self, member: str, epoch: int, **said: Any) -> StreamsGroupHeartbeatResponse:
        """One heartbeat; fields are said only where they are given."""
        fields: dict[str, Any] = {"group_id": GROUP, "client_id": "client", "client_host": "/127.0.0.1"}
        asked = StreamsSaid(member_id=member, epoch=epoch, **({"endpoint_epoch": -1} | fields | said))
        answer = cast(
            StreamsAnswer, self.ask(lambda machine, ticket, now: machine.streams.heartbeat(asked, ticket, now))
        )
        self.wanted = [(topic.name, topic.partitions) for topic in answer.to_create]
        return answer.response

    def come(self, member: str, topology: Topology, **said: Any) -> StreamsGroupHeartbeatResponse:
        """The first heartbeat of a member, of a process of its own unless another is named."""
        first = {"rebalance_timeout_ms": REBALANCE_MS, "owned": tasks({}), "process_id": f"process of {member}"}
        return self.say(member, 0, topology=topology, **(first | said))

    def runs(self, answer: StreamsGroupHeartbeatResponse) -> Share | None:
        """The active tasks that an answer gives; None where it says nothing of them."""
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
        return None if answer.active_tasks is None else share(answer.active_tasks)

    def statuses(self, answer: StreamsGroupHeartbeatResponse) -> list[tuple[int, str]]:
        return [(one.status_code, one.status_detail) for one in answer.status or ()]

    def described(self, group: str = GROUP) -> DescribedStreamsGroup:
        shown = self.ask(lambda machine, ticket, now: machine.streams.describe(group, ticket, now))
        shown.group.members = [describe() for describe in shown.members]
        return cast(DescribedStreamsGroup, shown.group)

    def group_state(self) -> tuple[str, int, int]:
        """State, epoch of the group, epoch of its assignment."""
        group = self.described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def current(self) -> dict[str, Share]:
        """Who runs what."""
        return {one.member_id: share(one.assignment.active_tasks) for one in self.described().members}
