"""Members of a streams group do what they like, while topics come and go, the log refuses and the broker restarts: a
task is run by one member at a time, a process has its state once, and what is in memory is what the log says.
"""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.groups.deadline import DeadlineKind
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.heartbeats import StreamsSaid
from coordinator.groups.streams.member import TaskRole, Tasks
from coordinator.groups.streams.topology import Copartitioned
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings, FixedStreamsSettings
from tests.unit.streams_groups.story import GROUP, StreamsStory, application, internal, reads, tasks

LONGEST_SILENCE_MS = 1_000_000
NOT_LOGGED = ("_found_state", "_held", "_changes")
MEMBERS, TOPICS = st.sampled_from("ABCD"), ("t", "u", "log", "r")
PROCESSES = st.sampled_from((None, "left", "right"))
TOPOLOGIES = (
    application(reads("t")),
    application(reads("t", keeps=["log"])),
    application(reads("t", subtopology_id="1"), reads("u", keeps=["log"])),
    application(reads("t", writes=["r"]), reads(subtopology_id="1", repartition=[internal("r")], keeps=["log"])),
    application(reads("t", "u", alike=[Copartitioned((0, 1), ())]), epoch=1),
    application(reads("t", repartition=[internal("r")], writes=["r"])),
)
NAMED = (None, tasks({}), tasks({"0": [0]}), tasks({"0": [0, 1], "1": [1]}, {"0": [2]}), tasks({"9": [0]}))


class StreamsMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from((0, 3_000)), standbys=st.sampled_from((0, 1, 2)))
    def begin(self, delay_ms: int, standbys: int) -> None:
        of_streams = FixedStreamsSettings(delay_ms=delay_ms, standbys=standbys)
        self.story = StreamsStory(FixedGroupSettings(streams=of_streams), t=3)

    def beat(self, **said: Any) -> None:
        asked = StreamsSaid(group_id=GROUP, client_id="c", client_host="/h", **said)
        self.story.submit(lambda machine, ticket, now: machine.streams.heartbeat(asked, ticket, now))

    @rule(
        member=MEMBERS,
        topology=st.sampled_from((*TOPOLOGIES[:2], *TOPOLOGIES)),
        process=st.sampled_from(("left", "right", "far")),
        endpoint=st.sampled_from((None, ("here", 80))),
        timeout_ms=st.sampled_from((-1, 0, 5_000)),
    )
    def a_member_comes(self, member: str, topology: Any, process: str, endpoint: Any, timeout_ms: int) -> None:
        self.beat(
            member_id=member,
            epoch=0,
            topology=topology,
            process_id=process,
            endpoint=endpoint,
            rebalance_timeout_ms=timeout_ms,
            owned=tasks({}),
            endpoint_epoch=0,
        )

    @rule(
        member=MEMBERS,
        behind=st.sampled_from((0, 0, 0, 1, -1)),
        owned=st.sampled_from(NAMED),
        process=PROCESSES,
        shuts_down=st.sampled_from((False, False, True)),
        tags=st.sampled_from((None, None, (("zone", "a"),))),
    )
    def a_member_stays(
        self, member: str, behind: int, owned: Tasks | None, process: str | None, shuts_down: bool, tags: Any
    ) -> None:
        epoch = max(1, self.known_epoch(member) - behind)
        self.beat(
            member_id=member,
            epoch=epoch,
            owned=owned,
            process_id=process,
            shuts_down=shuts_down,
            tags=tags,
            endpoint_epoch=-1,
        )

    @rule(member=MEMBERS)
    def a_member_has_given_back(self, member: str) -> None:
        group = self.groups().get(GROUP)
        if group is not None and member in group.members:
            known = group.members[member]
            self.beat(member_id=member, epoch=max(known.epoch, 1), owned=known.assigned.ids(), endpoint_epoch=-1)

    @rule(member=MEMBERS)
    def a_member_goes(self, member: str) -> None:
        self.beat(member_id=member, epoch=-1, endpoint_epoch=-1)

    def known_epoch(self, member: str) -> int:
        group = self.groups().get(GROUP)
        known = None if group is None else group.members.get(member)
        return 0 if known is None else known.epoch

    # -- the world -------------------------------------------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 4))
    def a_topic_is_made(self, topic: str, count: int) -> None:
        self.story.topics.set(topic, count)

    @rule(topic=st.sampled_from(TOPICS))
    def a_topic_is_deleted(self, topic: str) -> None:
        if self.story.topics.by_name(topic) is not None:
            self.story.topics.delete(topic)

    @rule(milliseconds=st.sampled_from((1, 999, 3_000, 5_000, 45_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.story.time.advance(milliseconds)

    @rule(standbys=st.sampled_from((0, 1, 2)), size=st.sampled_from((1, 2, 100)))
    def settings_change(self, standbys: int, size: int) -> None:
        self.story.settings.streams.standbys = standbys
        self.story.settings.streams.max_size = size

    @rule()
    def the_group_is_deleted(self) -> None:
        self.story.submit(lambda machine, ticket, now: machine.delete_group(GROUP, ticket, now))

    @rule()
    def a_classic_member_comes(self) -> None:
        self.story.join(version=3)

    @rule()
    def the_log_refuses_the_next_record(self) -> None:
        self.story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)

    @rule()
    def the_broker_restarts(self) -> None:
        self.story.restart()

    # -- what holds ------------------------------------------------------------------------------------------

    @invariant()
    def a_task_is_run_by_one_member(self) -> None:
        for group in self.groups().values():
            held = [(member, part) for member in group.members.values() for part in (member.assigned, member.revoking)]
            active = [task for _, part in held for task in part.each(TaskRole.ACTIVE)]
            assert len(active) == len(set(active))
            assert set(active) == set(group._active)
            copies: dict[tuple[str, int], Counter[str]] = {}
            for member, part in held:
                for task in part.each(TaskRole.STANDBY):
                    copies.setdefault(task, Counter())[member.process_id] += 1
            assert copies == group._copies

    @invariant()
    def what_is_in_memory_is_what_the_log_says(self) -> None:
        """However much of it is compacted."""
        if hasattr(self, "story"):
            loaded = self.story._shard(self.story.log.copy()).machine.ledger.streams.by_id
            assert {name: logged(one) for name, one in self.groups().items()} == {
                name: logged(one) for name, one in loaded.items()
            }

    def teardown(self) -> None:
        """Sessions end, and the group is deleted: nothing is left of it."""
        if not hasattr(self, "story"):
            return
        story = self.story
        story.log._refusals.clear()
        story.time.advance(LONGEST_SILENCE_MS)
        self.the_group_is_deleted()
        story.time.advance(1)
        machine = story.shard.machine
        soft = machine._streams_shard.soft
        assert not soft.seen and not soft.shutdowns and not soft.endpoint_epochs
        assert [key.kind for key in machine._deadlines._at] == [DeadlineKind.RETENTION]
        assert machine._classic.memberships == {}
        assert machine.ledger.held.bytes == 0

    def groups(self) -> dict[str, StreamsGroup]:
        return self.story.shard.machine.ledger.streams.by_id if hasattr(self, "story") else {}


def logged(group: StreamsGroup) -> dict[str, Any]:
    return {name: value for name, value in vars(group).items() if name not in NOT_LOGGED}


TestStreamsMachine = StreamsMachine.TestCase
TestStreamsMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
