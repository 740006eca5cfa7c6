"""Errands of share groups that end late, or in another life of the machine, over the real share coordinator: nothing
that members have read of is begun anew, and what the log has refused leaves nothing behind."""

import contextlib
from typing import Any, cast

import pytest

from coordinator.groups.share.answers import Errand
from coordinator.runtime import Shard
from coordinator.share_state.answers import Verdict
from coordinator.share_state.coordinator import ShareCoordinator
from coordinator.share_state.kept import ShareKey, Write
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import CollectingTicket, MemoryShardLog
from tests.unit.consumer_groups.story import topic_id
from tests.unit.groups.story import GROUP
from tests.unit.share_groups.story import ShareStory

T = topic_id("t")


class Settings:
    updates_per_snapshot = 500
    cold_snapshot_interval_ms = 300_000
    max_batch_bytes = 1 << 20


class Keeper:
    """The real share coordinator. An `initialize` may be held back by the test."""

    def __init__(self, story: ShareStory) -> None:
        self.shard = Shard(
            lambda: ShareCoordinator(cast(Any, Settings()), lambda *_: True),
            MemoryShardLog(),
            story.time,
            story.time,
            name="s",
        )
        self.shard.load_slice(1 << 20)

    def ask(self, operation: Any) -> Any:
        ticket = CollectingTicket()
        self.shard.submit(lambda machine, now_ms: operation(machine, ticket, now_ms), ticket)
        return ticket.answer

    def initialize(self, errand: Errand, partition: int = 0, start: int = -1) -> Verdict:
        key = ShareKey(errand.group_id, T, partition)
        return cast(
            Verdict,
            self.ask(lambda m, t, n: m.initialize(key, t, n, state_epoch=errand.state_epoch, start_offset=start)),
        )

    def delete(self, partition: int = 0) -> Verdict:
        return cast(Verdict, self.ask(lambda m, t, n: m.delete(ShareKey(GROUP, T, partition), t, n)))

    def acknowledged_up_to(self, offset: int, partition: int = 0) -> ErrorCode:
        """Who leads the partition has read the state, and writes that all before `offset` is done."""
        key = ShareKey(GROUP, T, partition)
        kept = self.shard.machine.ledger.kept[key]
        write = Write(1, offset, 0, ())
        verdict = self.ask(lambda m, t, n: m.write(key, t, n, state_epoch=kept.state_epoch, write=write))
        return cast(Verdict, verdict).error

    def start(self, partition: int = 0) -> int:
        return self.shard.machine.ledger.kept[ShareKey(GROUP, T, partition)].start_offset


def answer(story: ShareStory, errand: Errand, *, ok: bool = True) -> None:
    story.errands[:] = [one for one in story.errands if one is not errand]
    kept = errand.partitions if ok else {}
    story.ask(lambda machine, ticket, now: machine.share_administration.answered(errand, kept, ticket, now))


def test_of_two_settings_at_a_time_each_has_an_epoch_of_its_own() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    story.say("m1", -1)
    first, second = story.set_offsets({"t": [0]}).errand, story.set_offsets({"t": [0]}).errand
    assert first is not None and second is not None
    assert first.state_epoch < second.state_epoch


def test_a_setting_that_is_late_does_not_begin_anew_with_what_members_read() -> None:
    """The admin's first request waits (a pause of `_patiently`), its client asks once more and is answered; a member
    comes, reads and acknowledges; then the first one goes on."""
    story = ShareStory(t=1)
    keeper = Keeper(story)
    first, second = story.set_offsets({"t": [0]}).errand, story.set_offsets({"t": [0]}).errand
    assert first is not None and second is not None
    assert keeper.initialize(second, start=50).error is ErrorCode.NONE
    answer(story, second)
    epoch = story.say("m1", 0, "t").member_epoch
    assert story.group.members["m1"].assigned == {T: frozenset({0})}, "it reads"
    assert len(story.errands) == 1 and story.errands[0] is first, "nothing is initialised for it"
    assert keeper.acknowledged_up_to(80) is ErrorCode.NONE
    late = keeper.initialize(first, start=10)
    assert (late.error, keeper.start()) == (ErrorCode.FENCED_STATE_EPOCH, 80), epoch


def test_who_was_asked_by_an_earlier_machine_makes_nothing_initialised() -> None:
    """Two errands are under way in a node when the shard is loaded again (or: one of this node, and one of the node
    that had the shard in between). The earlier ends, members read, and then the later begins anew."""
    story = ShareStory(t=1)
    keeper = Keeper(story)
    story.say("m1", 0, "t")
    story.time.advance(story.settings.share.initialize_retry_interval_ms)
    story.say("m1", 2)
    first, second = story.errands
    story.restart()
    assert keeper.initialize(first).error is ErrorCode.NONE
    answer(story, first)
    before = story.shared()
    epoch = story.group.members["m1"].epoch
    story.say("m1", epoch)
    reads = story.group.members["m1"].assigned
    if reads:
        assert keeper.acknowledged_up_to(80) is ErrorCode.NONE
    late = keeper.initialize(second)
    assert not reads or keeper.start() == 80, (before, late, keeper.start())


def test_a_group_whose_deletion_the_log_refused_once_can_be_deleted() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    story.say("m1", -1)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(AssertionError):  # the ticket is refused
        story.forget()
    assert story.forget().error is ErrorCode.NONE


def test_such_a_group_goes_on_initialising() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    story.say("m1", -1)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    with contextlib.suppress(AssertionError):
        story.forget()
    story.topics.set("u", 1)
    epoch = story.come("m2", "t", "u")
    story.time.advance(600_000)
    story.say("m2", 0, "t", "u")
    story.keep_all()
    assert story.shared()[1] == {"t": [0], "u": [0]}, epoch


def test_nothing_is_kept_of_groups_that_the_log_refused() -> None:
    story = ShareStory(t=1000)
    for number in range(20):
        story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        with contextlib.suppress(AssertionError):
            story.say("m1", 0, "t", group_id=f"g{number}")
    shares = story.shard.machine.shares
    assert not story.shard.machine.ledger.shares.by_id
    assert (len(shares._under_way._errands), len(shares._retries)) == (0, 0)


def test_an_errand_that_the_log_refused_does_not_hide_the_answer_to_the_one_before() -> None:
    """Costs the retry interval, no more: the partition is asked for again then."""
    story = ShareStory(t=1)
    story.say("m1", 0, "t")
    story.time.advance(story.settings.share.initialize_retry_interval_ms)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    with contextlib.suppress(AssertionError):
        story.say("m1", 2)
    (first,) = story.errands
    answer(story, first)
    assert story.shared() == ({}, {"t": [0]}, [])
