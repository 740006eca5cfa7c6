"""Groups under random members: joins, leaves, heartbeats, silence, transactions, crashes.

Whatever happens: a generation has one leader and one list of members, every request is answered exactly once (the
tickets insist on that), silence ends in an empty group with nobody waiting, and a reload agrees with what was live.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.groups import assigning
from coordinator.groups.held import MEMBERSHIP_BYTES, PENDING_BYTES, text_bytes
from coordinator.groups.logged import GroupLedger
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupResponse
from tests.harness.group_settings import FixedGroupSettings
from tests.harness.memory_shard_log import CollectingTicket
from tests.unit.groups.story import GROUP, Story

LIMITS = settings(max_examples=120, stateful_step_count=40, deadline=None)
PROTOCOLS = [(("range", b"m"),), (("range", b"other"),), (("sticky", b"s"), ("range", b"m"))]
AT_ONCE = assigning.AT_ONCE
INSTANCES = [None, None, "i0", "i1"]
LONGEST_SILENCE_MS = 1_000_000


class GroupMachine(RuleBasedStateMachine):
    """Members that may do anything, also what no client would."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets: list[CollectingTicket] = []
        self.ids: dict[str, str | None] = {}
        """Every member id ever handed out → its instance id."""
        self.unread: list[CollectingTicket] = []
        self.generation = 0
        self.lives = 0
        """A generation that was not logged may come again after a crash, and a deleted group counts anew."""
        self.log_refused = False
        self.leaders: dict[tuple[int, int], str] = {}

    @initialize(delay=st.sampled_from([0, 0, 3_000]), size=st.sampled_from([2, 3, 100]), step=st.sampled_from([1, 500]))
    def begin(self, delay: int, size: int, step: int) -> None:
        assigning.AT_ONCE = step
        never_ms = 10**12
        self.story = Story(
            FixedGroupSettings(
                initial_rebalance_delay_ms=delay, max_size=size, offsets_retention_check_interval_ms=never_ms
            )
        )

    def learn(self) -> None:
        """Look at answers that came in."""
        answered = [ticket for ticket in self.unread if not ticket.waiting]
        self.unread = [ticket for ticket in self.unread if ticket.waiting]
        for ticket in answered:
            answer = ticket.answers[0] if ticket.answers else None
            if isinstance(answer, JoinGroupResponse):
                self.learn_join(answer)

    def learn_join(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.ids[answer.member_id] = None
        if answer.error_code != ErrorCode.NONE:
            return
        self.generation = answer.generation_id
        self.ids.setdefault(answer.member_id, None)
        names = [member.member_id for member in answer.members]
        assert len(set(names)) == len(names)
        if answer.member_id == answer.leader:
            assert answer.member_id in names
            for member in answer.members:
                self.ids[member.member_id] = member.group_instance_id
        else:
            assert not names
        if not answer.skip_assignment and answer.member_id == answer.leader:
            generation = (self.lives, answer.generation_id)
            assert self.leaders.setdefault(generation, answer.leader) == answer.leader

    def take(self, ticket: CollectingTicket) -> None:
        self.tickets.append(ticket)
        self.unread.append(ticket)
        self.learn()

    @rule(
        version=st.sampled_from([0, 3, 5, 9]),
        protocols=st.sampled_from(PROTOCOLS),
        instance=st.sampled_from(INSTANCES),
        rebalance_ms=st.sampled_from([1_000, 60_000]),
    )
    def somebody_joins(
        self, version: int, protocols: tuple[tuple[str, bytes], ...], instance: str | None, rebalance_ms: int
    ) -> None:
        ticket = self.story.join(version=version, protocols=protocols, instance=instance, rebalance_ms=rebalance_ms)
        self.take(ticket)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), protocols=st.sampled_from(PROTOCOLS))
    def a_member_joins(self, data: st.DataObject, protocols: tuple[tuple[str, bytes], ...]) -> None:
        member = data.draw(st.sampled_from(list(self.ids)))
        self.take(self.story.join(member, protocols=protocols, instance=self.ids[member]))

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), late=st.integers(0, 1))
    def a_member_syncs(self, data: st.DataObject, late: int) -> None:
        member = data.draw(st.sampled_from(list(self.ids)))
        shares = {name: name.encode() for name in self.ids}
        self.take(self.story.sync(member, self.generation - late, shares))

    @rule()
    def all_members_go_along(self) -> None:
        """What well-behaved members do: join, then sync."""
        story = self.story
        alive = [member.member_id for member in story.describe().members]
        for member in alive:
            self.take(story.join(member, instance=self.ids.get(member)))
        story.time.advance(3_000)
        self.learn()
        shares = {name: name.encode() for name in alive}
        for member in alive:
            self.take(story.sync(member, self.generation, shares))

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def a_member_heartbeats(self, data: st.DataObject) -> None:
        self.story.heartbeat(data.draw(st.sampled_from(list(self.ids))), self.generation)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def a_member_leaves(self, data: st.DataObject) -> None:
        self.take(self.story.submit_leave(data.draw(st.sampled_from(list(self.ids)))))

    @rule(producer=st.sampled_from([None, 1, 2]), partition=st.integers(0, 1), offset=st.integers(0, 99))
    def offsets_are_committed(self, producer: int | None, partition: int, offset: int) -> None:
        self.take(self.story.submit_commit(offset, partition=partition, producer=producer))

    @rule(producer=st.sampled_from([1, 2]), commit=st.booleans())
    def a_transaction_ends(self, producer: int, commit: bool) -> None:
        self.take(self.story.end(producer, commit=commit))

    @rule(partition=st.integers(0, 1))
    def offsets_are_deleted(self, partition: int) -> None:
        wanted = [("t", partition)]
        self.take(self.story.submit(lambda machine, ticket, now: machine.delete_offsets(GROUP, wanted, 0, ticket, now)))

    @rule()
    def the_group_is_deleted(self) -> None:
        ticket = self.story.submit(lambda machine, ticket, now: machine.delete_group(GROUP, ticket, now))
        if ticket.answers == [ErrorCode.NONE]:
            self.lives += 1
        self.take(ticket)

    @rule(milliseconds=st.sampled_from([0, 1, 999, 5_000, 10_000, 60_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.story.time.advance(milliseconds)
        self.learn()

    @rule()
    def the_broker_restarts(self) -> None:
        self.reload_agrees()
        self.lives += 1
        self.learn()

    @rule()
    def the_log_refuses_the_next_record(self) -> None:
        self.log_refused = True
        self.story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)

    @invariant()
    def what_is_logged_is_what_the_log_says(self) -> None:
        """Operations change nothing that is logged, and replay does the same live as on load."""
        if not hasattr(self, "story"):
            return
        fresh = GroupLedger()
        for entry in self.story.entries():
            fresh.replay(entry)
        live = self.story.shard.machine.ledger
        assert live.groups == fresh.groups
        assert live.offsets.committed == fresh.offsets.committed
        assert live.offsets.staged == fresh.offsets.staged
        assert live.held.bytes == fresh.held.bytes + self.counted()

    def counted(self) -> int:
        """What the groups in memory hold beside what is logged, counted afresh."""
        counted = 0
        for group in self.story.shard.machine._classic.memberships.values():
            pending = sum(PENDING_BYTES + text_bytes(member_id) for member_id in group.pending)
            known = MEMBERSHIP_BYTES + pending + sum(member.counted_bytes for member in group.members.values())
            assert group.counted_bytes == known
            assert all(member.counted_bytes == member.held_bytes for member in group.members.values())
            counted += known
        return counted

    def reload_agrees(self) -> None:
        story = self.story
        live, offsets = story.describe(), [story.all_offsets(stable=stable) for stable in (False, True)]
        waiting = [ticket for ticket in self.tickets if ticket.waiting]
        story.restart()
        assert [story.all_offsets(stable=stable) for stable in (False, True)] == offsets
        if live.group_state in ("Stable", "Empty") and not self.log_refused:
            assert story.describe() == live
        assert all(ticket.errors == [ErrorCode.NOT_COORDINATOR] for ticket in waiting)

    def teardown(self) -> None:
        assigning.AT_ONCE = AT_ONCE
        if not hasattr(self, "story"):
            return
        self.story.time.advance(LONGEST_SILENCE_MS)
        self.learn()
        assert not [ticket for ticket in self.tickets if ticket.waiting]
        assert self.story.state in ("Empty", "Dead")
        self.reload_agrees()


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = LIMITS
