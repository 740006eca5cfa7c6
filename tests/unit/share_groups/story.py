"""A group coordinator on a log in memory, topics, and members of share groups: the tools of the stories in this
folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.share.answers import Errand, Prepared, ShareAnswer
from coordinator.groups.share.group import ShareGroup
from coordinator.groups.share.protocol import Said
from coordinator.runtime import Shard
from protocol.errors import ErrorCode
from protocol.messages.share.groups import DescribedShareGroup, ShareGroupHeartbeatResponse
from tests.harness.group_settings import FixedGroupSettings
from tests.harness.memory_shard_log import MemoryShardLog
from tests.unit.consumer_groups.story import Topics, topic_id
from tests.unit.groups.story import GROUP, Story

Partitions = Mapping[str, Sequence[int]]


def ids(partitions: Partitions) -> dict[bytes, frozenset[int]]:
    return {topic_id(name): frozenset(of) for name, of in partitions.items()}


class ShareStory(Story):
    """One shard, topics, and members. Errands wait in `errands` until they are done or given up."""

    def __init__(self, settings: FixedGroupSettings | None = None, *, durable: bool = True, **topics: int) -> None:
        self.topics = Topics()
        for name, partitions in topics.items():
            self.topics.set(name, partitions)
        self.errands: list[Errand] = []
        super().__init__(settings, durable=durable)
        self.settings.share.assignment_ms = 0

    def _shard(self, log: MemoryShardLog) -> Shard[GroupCoordinator]:
        make = lambda: GroupCoordinator(self.settings, None, self.topics)  # noqa: E731
        shard = Shard(make, log, self.time, self.time, name="groups-0", compacted=True)
        while not shard.load_slice(1 << 20):
            pass
        return shard

    # -- members ---------------------------------------------------------------------------------------------

    def say(self, member: str, epoch: int, *topics: str, **said: Any) -> ShareGroupHeartbeatResponse:
        """One heartbeat. Topics are said only where they are given."""
        fields: dict[str, Any] = {"group_id": GROUP, "client_id": "client", "client_host": "/127.0.0.1"}
        if topics:
            fields["topics"] = frozenset(topics)
        asked = Said(member_id=member, epoch=epoch, **(fields | said))
        answer = cast(ShareAnswer, self.ask(lambda machine, ticket, now: machine.shares.heartbeat(asked, ticket, now)))
        if answer.errand is not None:
            self.errands.append(answer.errand)
        return answer.response

    def come(self, member: str, *topics: str) -> int:
        """A member joins and hears twice: what it wants is initialised meanwhile. Its epoch."""
        epoch = self.say(member, 0, *topics).member_epoch
        self.keep_all()
        return self.say(member, epoch).member_epoch

    def gets(self, answer: ShareGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        """What an answer assigns, by topic; None where it says nothing of it."""
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
        if answer.assignment is None:
            return None
        return {_name(one.topic_id): one.partitions for one in answer.assignment.topic_partitions}

    # -- what the share coordinator answers ------------------------------------------------------------------

    def keep_all(self) -> None:
        """Whatever it was asked for."""
        while self.errands:
            self.keep(self.errands[0].partitions)

    def keep(self, kept: Mapping[bytes, frozenset[int]]) -> None:
        """These partitions of the oldest errand, and no others."""
        errand = self.errands.pop(0)
        self.ask(lambda machine, ticket, now: machine.share_administration.answered(errand, kept, ticket, now))

    # -- administration --------------------------------------------------------------------------------------

    def set_offsets(self, partitions: Partitions, group: str = GROUP) -> Prepared:
        wanted = ids(partitions)
        prepared = cast(
            Prepared,
            self.ask(
                lambda machine, ticket, now: machine.share_administration.begin_setting(group, wanted, ticket, now)
            ),
        )
        if prepared.errand is not None:
            self.errands.append(prepared.errand)
        return prepared

    def forget(self, *topics: str, group: str = GROUP) -> Prepared:
        """All topics where none is named."""
        wanted = [topic_id(name) for name in topics] if topics else None

        def begin(machine: GroupCoordinator, ticket: Any, now: int) -> Any:
            return machine.share_administration.begin_forgetting(group, wanted, ticket, now)

        return cast(Prepared, self.ask(begin))

    def forgotten(self, prepared: Prepared, *failed: str) -> None:
        """The share coordinator has forgotten all of it but these topics."""
        errand = prepared.errand
        assert errand is not None
        gone = errand.partitions.keys() - {topic_id(name) for name in failed}
        self.ask(lambda machine, ticket, now: machine.share_administration.forgotten(errand, gone, ticket, now))

    def pass_by(self, kept: Mapping[tuple[str, int], int], group: str = GROUP) -> Errand | None:
        """The share coordinator keeps these partitions with these epochs, and refuses an errand that has an earlier."""
        epochs = {(topic_id(name), index): epoch for (name, index), epoch in kept.items()}

        def passed(machine: GroupCoordinator, ticket: Any, now: int) -> Any:
            return machine.share_administration.pass_by(group, epochs, ticket, now)

        return cast(Errand | None, self.ask(passed))

    def delete(self, group: str = GROUP) -> ErrorCode | None:
        return cast(Any, self.ask(lambda machine, ticket, now: machine.delete_group(group, ticket, now)))

    def described(self, group: str = GROUP) -> DescribedShareGroup:
        return cast(
            DescribedShareGroup,
            self.ask(lambda machine, ticket, now: machine.share_administration.describe(group, ticket, now)),
        )

    def group_state(self) -> tuple[str, int, int]:
        """State, epoch of the group, epoch of its assignment."""
        group = self.described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    @property
    def group(self) -> ShareGroup:
        return self.shard.machine.ledger.shares.by_id[GROUP]

    def shared(self) -> tuple[dict[str, list[int]], dict[str, list[int]], list[str]]:
        """What is being initialised, what is initialised, and the topics that are being forgotten."""
        group = self.group
        initializing, initialized = (
            {topic.name: sorted(topic.partitions) for topic in part.values()}
            for part in (group.initializing, group.initialized)
        )
        return initializing, initialized, sorted(group.deleting.values())


def _name(wanted: bytes) -> str:
    return wanted.lstrip(b"\x01").decode()
