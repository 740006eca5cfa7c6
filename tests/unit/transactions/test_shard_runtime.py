"""The runtime under every coordinator: what is appended, replayed, released, refused and loaded again, and when."""

from collections.abc import Callable

import pytest

from coordinator.machine import (
    Marker,
    Outcome,
    ProducerStamp,
    Record,
    ReplayedMarker,
    ReplayedRecord,
    Ticket,
    UnreadableValue,
)
from coordinator.runtime import NotReady, Shard, ShardState
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import CollectingTicket, MemoryShardLog, VirtualTime

END = Marker(producer_id=5, producer_epoch=1, commit=True, coordinator_epoch=3, transaction_version=2)


class Counter:
    """A machine that counts records; a deadline appends one more."""

    def __init__(self) -> None:
        self.seen: list[ReplayedRecord | ReplayedMarker] = []
        self.deadline_ms: int | None = None
        self.was_loaded = False
        self.fails_on: bytes | None = None

    def knows(self, key: bytes) -> bool:
        return True

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        assert not isinstance(entry, ReplayedRecord) or entry.key != self.fails_on, "told to fail"
        self.seen.append(entry)
        if isinstance(entry, ReplayedRecord) and entry.key == b"expired":
            self.deadline_ms = None

    def loaded(self, now_ms: int) -> None:
        self.was_loaded = True

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def expire(self, now_ms: int) -> Outcome:
        return Outcome(records=[Record(b"expired", None)])


def opened(log: MemoryShardLog, time: VirtualTime | None = None) -> Shard[Counter]:
    clock = time or VirtualTime()
    shard = Shard(Counter, log, clock, clock, name="counted-0")
    while not shard.load_slice(1):
        pass
    return shard


def put(*keys: str, stamp: ProducerStamp | None = None) -> Callable[[Ticket], Callable[[Counter, int], Outcome]]:
    def operation(ticket: Ticket) -> Callable[[Counter, int], Outcome]:
        records = [Record(key.encode(), b"v") for key in keys]
        return lambda machine, now_ms: Outcome(records, stamp, answers=[(ticket, len(machine.seen))])

    return operation


def ask(shard: Shard[Counter], *keys: str) -> CollectingTicket:
    ticket = CollectingTicket()
    shard.submit(put(*keys)(ticket), ticket)
    return ticket


def test_an_answer_waits_until_its_records_are_durable() -> None:
    log = MemoryShardLog(durable=False)
    shard = opened(log)
    ticket = ask(shard, "a", "b")
    assert len(shard.machine.seen) == 2, "replayed at once"
    assert ticket.waiting
    log.sync()
    assert ticket.answer == 0


def test_a_read_waits_for_what_it_saw() -> None:
    """A read, or an error, may reveal what is not durable yet: it waits, too, and nothing overtakes."""
    log = MemoryShardLog(durable=False)
    shard = opened(log)
    write, read = ask(shard, "a"), ask(shard)
    assert write.waiting
    assert read.waiting
    log.sync()
    assert (write.answer, read.answer) == (0, 1)
    assert ask(shard).answer == 1, "nothing is outstanding, so the answer is immediate"


def test_a_refused_append_refuses_every_ticket_and_changes_nothing() -> None:
    """I03: tickets that waited in the machine and were about to be answered are refused, too."""
    log = MemoryShardLog()
    shard = opened(log)
    parked = CollectingTicket()
    shard.submit(lambda machine, now_ms: Outcome(), parked)
    log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    asking = CollectingTicket()
    shard.submit(lambda machine, now_ms: Outcome([Record(b"a", b"v")], answers=[(parked, 1), (asking, 2)]), asking)
    assert parked.errors == asking.errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert shard.machine.seen == []
    assert ask(shard, "a").answer == 0


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (3, 15),
        (19, 15),
        (20, 15),
        (7, 15),
        (6, 16),
        (56, 16),
        (10, -1),
        (18, -1),
        (4, -1),
        (47, 47),
        (48, 48),
        (52, 52),
    ],
)
def test_the_error_code_when_the_log_refuses(said: int, expected: int) -> None:
    log = MemoryShardLog()
    shard = opened(log)
    log.refuse(ErrorCode(said))
    assert ask(shard, "a").errors == [ErrorCode(expected)]


def test_listeners_run_before_the_answers_of_the_same_moment() -> None:
    log = MemoryShardLog(durable=False)
    shard = opened(log)
    order: list[str] = []
    ticket = CollectingTicket()

    def listen() -> None:
        order.append("answered" if ticket.answers else "waiting")

    shard.on_durable(listen)
    shard.submit(put("a")(ticket), ticket)
    log.sync()
    assert order == ["waiting"]
    assert ticket.answers


def test_a_listener_may_submit_and_its_records_count() -> None:
    log = MemoryShardLog()
    shard = opened(log)
    follow_up = CollectingTicket()

    def listen() -> None:
        if len(shard.machine.seen) == 1:
            shard.submit(put("follow-up")(follow_up), follow_up)

    shard.on_durable(listen)
    ask(shard, "a")
    assert [entry.key for entry in shard.machine.seen if isinstance(entry, ReplayedRecord)] == [b"a", b"follow-up"]
    assert follow_up.answer == 1


def test_all_listeners_run_before_any_answer_though_one_submits() -> None:
    shard = opened(MemoryShardLog())
    heard: list[str] = []

    class Told(CollectingTicket):
        def release(self, answer: object) -> None:
            heard.append("answer")

    def submits() -> None:
        if not heard:
            ask(shard, "more")

    shard.on_durable(submits)
    shard.on_durable(lambda: heard.append("listener"))
    ticket = Told()
    shard.submit(put("a")(ticket), ticket)
    assert heard == ["listener", "listener", "answer"]


def test_loading_in_slices_gives_the_machine_that_was_live() -> None:
    """I14, KAFKA-7286: records, stamps, tombstones and markers come back exactly, however small a slice is."""
    log = MemoryShardLog()
    shard = opened(log)
    ask(shard, "a", "b")
    stamped = CollectingTicket()
    shard.submit(put("c", stamp=ProducerStamp(5, 1))(stamped), stamped)
    marked = CollectingTicket()
    shard.submit(lambda machine, now_ms: Outcome(marker=END, answers=[(marked, None)]), marked)
    shard.submit(lambda machine, now_ms: Outcome([Record(b"a", None)]))
    for size, spent in ((1, True), (100, True), (1 << 20, True), (1, False)):
        clock = VirtualTime()
        again = Shard(Counter, log.copy(), clock, clock, name="again")
        slices = 1
        while not again.load_slice(size, lambda spent=spent: spent):  # type: ignore[misc]
            assert not again.machine.was_loaded
            slices += 1
        assert again.machine.seen == shard.machine.seen
        assert again.machine.was_loaded
        assert (slices == 1) == (not spent)


def test_a_shard_that_loads_or_is_closed_takes_nothing() -> None:
    log = MemoryShardLog()
    ask(opened(log), "a")
    clock = VirtualTime()
    shard = Shard(Counter, log, clock, clock, name="late")
    with pytest.raises(NotReady) as loading:
        ask(shard)
    assert loading.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    told: list[int] = []
    shard.on_durable(lambda: told.append(len(shard.machine.seen)))
    while not shard.load_slice(1):
        pass
    assert shard.load_slice(1), "it is loaded, and once only"
    assert (len(shard.machine.seen), told) == (1, [1])
    shard.close()
    with pytest.raises(NotReady) as closed:
        ask(shard)
    assert closed.value.error is ErrorCode.NOT_COORDINATOR


def test_closing_ends_all_waits() -> None:
    log = MemoryShardLog(durable=False)
    shard = opened(log)
    ticket = ask(shard, "a")
    parked = CollectingTicket()
    shard.submit(lambda machine, now_ms: Outcome(), parked)
    shard.close()
    log.sync()
    assert ticket.errors == parked.errors == [ErrorCode.NOT_COORDINATOR]
    assert not ticket.answers


def test_a_stopping_shard_answers_what_waits_for_others_and_what_waits_for_the_disk() -> None:
    """A JoinGroup would hold up the stop for the members' rebalance timeout; a commit is on its way to the disk."""
    log = MemoryShardLog(durable=False)
    shard = opened(log)
    parked, late = CollectingTicket(), CollectingTicket()
    written = ask(shard, "a")
    shard.submit(lambda machine, now_ms: Outcome(), parked)
    shard.hold_no_requests()
    assert parked.errors == [ErrorCode.NOT_COORDINATOR] and not written.errors
    shard.submit(lambda machine, now_ms: Outcome(), late)
    assert late.errors == [ErrorCode.NOT_COORDINATOR]
    shard.submit(lambda machine, now_ms: Outcome(answers=[(parked, 1)]))
    log.sync()
    assert len(written.answers) == 1
    assert not parked.answers, "it was answered before"


def test_a_machine_that_contradicts_itself_is_dropped_and_loaded_again() -> None:
    """Style rule 10: a bug of ours stops the shard, and the log is what is believed."""
    log = MemoryShardLog()
    shard = opened(log)
    ask(shard, "a")
    shard.machine.fails_on = b"b"
    parked = CollectingTicket()
    shard.submit(lambda machine, now_ms: Outcome(), parked)
    reloads: list[int] = []
    shard.on_reload = lambda: reloads.append(shard.incarnation)
    ticket = CollectingTicket()
    with pytest.raises(AssertionError, match="told to fail"):
        shard.submit(put("b")(ticket), ticket)
    assert reloads == [1]
    assert ticket.errors == parked.errors == [ErrorCode.NOT_COORDINATOR]
    while not shard.load_slice(1):
        pass
    assert len(shard.machine.seen) == 2, "what was appended counts"
    assert ask(shard).answer == 2
    shard.reload()
    assert reloads == [1, 2]


def test_a_stale_owner_replays_the_log() -> None:
    log = MemoryShardLog()
    shard = opened(log)
    machine = shard.machine
    log.refuse(ErrorCode.NOT_COORDINATOR)
    assert ask(shard, "a").errors == [ErrorCode.NOT_COORDINATOR]
    assert shard.state is ShardState.LOADING
    assert shard.machine is not machine


def test_a_log_that_cannot_be_replayed_closes_the_shard() -> None:
    log = MemoryShardLog()
    ask(opened(log), "a")
    clock = VirtualTime()

    def broken() -> Counter:
        machine = Counter()
        machine.fails_on = b"a"
        return machine

    shard = Shard(broken, log, clock, clock, name="broken")
    with pytest.raises(AssertionError):
        shard.load_slice(1)
    assert shard.state is ShardState.CLOSED


def test_a_due_deadline_is_retried_when_the_log_refuses() -> None:
    time = VirtualTime(1_000)
    log = MemoryShardLog()
    shard = opened(log, time)

    def set_deadline(machine: Counter, now_ms: int) -> Outcome:
        machine.deadline_ms = 5_000
        return Outcome()

    shard.submit(set_deadline)
    time.advance(3_999)
    assert shard.machine.seen == []
    log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    time.advance(1)
    assert shard.machine.seen == []
    time.advance(100)
    assert len(shard.machine.seen) == 1
    time.advance(100_000)
    assert len(shard.machine.seen) == 1


def test_an_operation_that_raises_concerns_its_own_request_only() -> None:
    """UNKNOWN_SERVER_ERROR for the request that provoked it; nobody else's wait ends, and no state is lost."""
    log = MemoryShardLog(durable=False)
    shard = opened(log)
    bugs: list[Exception] = []
    shard.on_bug = bugs.append
    machine = shard.machine
    parked, writing, asking = CollectingTicket(), ask(shard, "a"), CollectingTicket()
    shard.submit(lambda machine, now_ms: Outcome(), parked)

    def overflow(machine: Counter, now_ms: int) -> Outcome:
        raise OverflowError("int64")

    shard.submit(overflow, asking)
    assert asking.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert [str(bug) for bug in bugs] == ["int64"]
    assert (shard.machine, shard.state, shard.incarnation) == (machine, ShardState.ACTIVE, 0)
    assert parked.waiting
    log.sync()
    assert writing.answer == 0


def test_a_deadline_that_raises_is_tried_again_later() -> None:
    """Once in a while, and not in a circle: the deadline stays in the past."""
    time = VirtualTime()
    shard = opened(MemoryShardLog(), time)
    bugs: list[Exception] = []
    shard.on_bug = bugs.append

    def expire(now_ms: int) -> Outcome:
        raise OverflowError("int64")

    shard.machine.expire = expire  # type: ignore[method-assign]
    shard.machine.deadline_ms = time.now_ms() + 10
    ask(shard, "a")
    time.advance(9)
    assert not bugs
    time.advance(1_001)
    assert len(bugs) == 11, "at its time, then every 100 ms"
    assert shard.state is ShardState.ACTIVE


def test_what_is_ignored_or_unreadable_is_counted_and_then_told_of() -> None:
    """Who is told names the first few, by their number."""
    log = MemoryShardLog()
    ask(opened(log), "strange", "broken", "strange", "broken", "good")

    class Picky(Counter):
        def knows(self, key: bytes) -> bool:
            return key != b"strange"

        def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
            if isinstance(entry, ReplayedRecord) and entry.key == b"broken":
                raise UnreadableValue("broken")
            super().replay(entry)

    clock = VirtualTime()
    shard = Shard(Picky, log, clock, clock, name="picky")
    told: list[tuple[int, int, int]] = []
    shard.on_ignored = shard.on_unreadable = lambda offset, _: told.append((offset, shard.ignored, shard.unreadable))
    assert shard.load_slice(1 << 20)
    assert told == [(0, 1, 0), (1, 1, 1), (2, 2, 1), (3, 2, 2)]
    assert len(shard.machine.seen) == 1
    shard.reload()
    assert (shard.ignored, shard.unreadable) == (0, 0)
