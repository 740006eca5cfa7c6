"""Members of both protocols do what they like with one group, while topics come and go, the log refuses and the broker
restarts: a partition has one member at a time, and what is in memory is what the log says.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.heartbeats import Said
from coordinator.groups.consumer.soft_state import Resolution
from coordinator.groups.deadline import DeadlineKind
from protocol.errors import ErrorCode
from tests.unit.consumer_groups.story import GROUP, ConsumerStory, embedded, topic_id

LONGEST_SILENCE_MS = 1_000_000
NOT_LOGGED = ("_found_state", "_held")
MEMBERS, INSTANCES, TOPICS = st.sampled_from("ABCD"), st.sampled_from((None, None, "a", "b")), ("t", "u", "v")
POLICIES = st.sampled_from(("bidirectional", "disabled", "upgrade", "downgrade"))
TIMEOUTS_MS, SIZES = st.sampled_from((0, 5_000)), st.sampled_from((1, 2, 100))
SHARES = st.sampled_from((b"", b"\0\3garbage", embedded("t")))
SUBSCRIPTIONS = st.none() | st.frozensets(st.sampled_from(TOPICS), max_size=3)
REGEXES = st.sampled_from((None, None, "", "t.*", "[uv]"))
MATCHES = {"t.*": "t", "[uv]": "uv"}
METADATA = st.sampled_from((embedded("t"), embedded("t", "u", owned={"t": [0, 1]}), embedded(), b"", b"\0\3garbage"))
PROTOCOLS = st.lists(st.tuples(st.sampled_from(("range", "turns")), METADATA), max_size=3).map(tuple)


class ConsumerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.story = ConsumerStory(t=3, u=2)
        self.asked: list[Resolution] = []
        self.classic: list[str] = []

    # -- members of the consumer protocol --------------------------------------------------------------------

    def known_epoch(self, member: str) -> int:
        group = self.story.shard.machine.ledger.consumers.by_id.get(GROUP)
        known = None if group is None else group.members.get(member)
        return 0 if known is None else known.epoch

    def beat(self, said: Said) -> None:
        ticket = self.story.submit(lambda machine, ticket, now: machine.consumer_heartbeat(said, ticket, now))
        for answer in ticket.answers:
            resolution = answer.resolution  # type: ignore[attr-defined]
            if resolution is not None:
                self.asked.append(resolution)

    @rule(member=MEMBERS, instance=INSTANCES, topics=SUBSCRIPTIONS, regex=REGEXES, timeout_ms=TIMEOUTS_MS)
    def a_member_comes(
        self, member: str, instance: str | None, topics: frozenset[str] | None, regex: str | None, timeout_ms: int
    ) -> None:
        known = {} if topics is not None or regex else {"topics": frozenset("t")}
        said: dict[str, Any] = {"topics": topics, "regex": regex} | known
        self.beat(Said(GROUP, member, 0, "c", "/h", instance, rebalance_timeout_ms=timeout_ms, owned=(), **said))

    @rule(
        member=MEMBERS,
        instance=INSTANCES,
        topics=SUBSCRIPTIONS,
        regex=REGEXES,
        behind=st.sampled_from((0, 0, 0, 1, -1, 1_000_000)),
        owned=st.sampled_from((None, (), ((topic_id("t"), (0, 1)),), ((topic_id("u"), (1,)), (b"?" * 16, (-7,))))),
    )
    def a_member_stays(
        self,
        member: str,
        instance: str | None,
        topics: frozenset[str] | None,
        regex: str | None,
        behind: int,
        owned: Any,
    ) -> None:
        epoch = max(1, self.known_epoch(member) - behind)
        self.beat(Said(GROUP, member, epoch, "c", "/h", instance, topics=topics, regex=regex, owned=owned))

    @rule(member=MEMBERS)
    def a_member_has_given_back(self, member: str) -> None:
        group = self.story.shard.machine.ledger.consumers.by_id.get(GROUP)
        if group is not None and member in group.members:
            known = group.members[member]
            owned = tuple((topic, tuple(of)) for topic, of in known.assigned.items())
            self.beat(Said(GROUP, member, max(known.epoch, 1), "c", "/h", known.instance_id, owned=owned))

    @rule(member=MEMBERS, instance=INSTANCES, epoch=st.sampled_from((-1, -2)))
    def a_member_goes(self, member: str, instance: str | None, epoch: int) -> None:
        if epoch == -1 or instance is not None:
            self.beat(Said(GROUP, member, epoch, "c", "/h", instance))

    @precondition(lambda self: self.asked)
    @rule(found=st.booleans())
    def an_expression_is_resolved(self, found: bool) -> None:
        asked = self.asked.pop(0)
        names = set(self.story.topics.names())
        topics = {one: frozenset(names & set(MATCHES[one])) for one in asked.expressions} if found else None
        self.story.submit(lambda machine, ticket, now: machine.expressions_resolved(asked, topics, ticket, now))

    # -- members of the classic protocol ---------------------------------------------------------------------

    @rule(protocols=PROTOCOLS, instance=INSTANCES, old=st.booleans(), type_=st.sampled_from(("consumer", "connect")))
    def a_classic_member_joins(self, protocols: Any, instance: str | None, old: bool, type_: str) -> None:
        member = self.classic.pop(0) if old and self.classic else ""
        version = 3 if instance is None else 9
        ticket = self.story.join(member, instance=instance, version=version, protocols=protocols, protocol_type=type_)
        for answer in ticket.answers:
            if answer.member_id:  # type: ignore[attr-defined]
                self.classic.append(answer.member_id)  # type: ignore[attr-defined]

    @precondition(lambda self: self.classic)
    @rule(generation=st.integers(0, 6), leaves=st.booleans(), shares=SHARES)
    def a_classic_member_goes_on(self, generation: int, leaves: bool, shares: bytes) -> None:
        member = self.classic[0]
        generation = self.known_epoch(member) or generation
        self.story.heartbeat(member, generation)
        self.story.sync(member, generation, dict.fromkeys(self.classic, shares))
        if leaves:
            self.classic.remove(member)
            self.story.submit_leave(member)

    # -- the world -------------------------------------------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 4), fresh=st.booleans())
    def a_topic_is_made(self, topic: str, count: int, fresh: bool) -> None:
        self.story.topics.set(topic, count, fresh_id=topic.encode() * 16 if fresh else None)

    @rule(topic=st.sampled_from(TOPICS))
    def a_topic_is_deleted(self, topic: str) -> None:
        if self.story.topics.by_name(topic) is not None:
            self.story.topics.delete(topic)

    @rule(milliseconds=st.sampled_from((1, 999, 5_000, 10_001, 45_000, 700_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.story.time.advance(milliseconds)

    @rule(policy=POLICIES, size=SIZES)
    def settings_change(self, policy: str, size: int) -> None:
        self.story.settings.consumer.migration_policy = policy
        self.story.settings.consumer.max_size = size

    @rule()
    def the_group_is_deleted(self) -> None:
        self.story.submit(lambda machine, ticket, now: machine.delete_group(GROUP, ticket, now))

    @rule()
    def the_log_refuses_the_next_record(self) -> None:
        self.story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)

    @rule()
    def the_broker_restarts(self) -> None:
        self.story.restart()
        self.asked.clear()

    # -- what holds ------------------------------------------------------------------------------------------

    @invariant()
    def a_partition_has_one_member(self) -> None:
        for group in self.groups().values():
            has = [
                (topic, index)
                for member in group.members.values()
                for part in (member.assigned, member.revoking)
                for topic, of in part.items()
                for index in of
            ]
            assert len(has) == len(set(has))
            assert set(has) == {(topic, index) for topic, of in group._owners.items() for index in of}

    @invariant()
    def what_is_in_memory_is_what_the_log_says(self) -> None:
        """However much of it is compacted."""
        loaded = self.story._shard(self.story.log.copy()).machine.ledger.consumers.by_id
        assert {name: logged(one) for name, one in self.groups().items()} == {
            name: logged(one) for name, one in loaded.items()
        }

    def teardown(self) -> None:
        """Sessions end, and the group is deleted: nothing is left of it."""
        story = self.story
        story.log._refusals.clear()
        story.time.advance(LONGEST_SILENCE_MS)
        self.the_group_is_deleted()
        story.time.advance(1)
        machine = story.shard.machine
        soft = machine._shard.soft
        assert not soft._seen and not soft.resolving and not soft.creations_seen
        assert [key.kind for key in machine._deadlines._at] == [DeadlineKind.RETENTION]
        assert machine._classic.memberships == {}
        assert machine.ledger.held.bytes == 0

    def groups(self) -> dict[str, ConsumerGroup]:
        return self.story.shard.machine.ledger.consumers.by_id


def logged(group: ConsumerGroup) -> dict[str, Any]:
    return {name: value for name, value in vars(group).items() if name not in NOT_LOGGED}


TestConsumerMachine = ConsumerMachine.TestCase
TestConsumerMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
