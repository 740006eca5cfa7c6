"""What the events of a transaction are as spans: where it begins, what belongs to it, and that times nest."""

from broker.journal.journal import Journal
from broker.journal.peers import Peer
from broker.tracing.transaction_trace import TracedSpan, TransactionTrace, trace_of
from broker.tracing.waiting_transactions import WaitingTransactions
from protocol.records.batch import BatchHeader, read_header
from protocol.records.record import NewRecord, build_batch


class Clock:
    now_ms: int = 1000

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


class Story:
    """A journal that is told what happens to one id, with what waits to be traced of it."""

    def __init__(self, most_bytes: int = 1 << 20) -> None:
        self.clock = Clock()
        self.journal = Journal(self.clock, 1 << 20)
        self.waiting = WaitingTransactions(most_bytes)
        self.journal.on_ended = self.waiting.take
        self.peer: Peer = self.journal.clients.met(
            client_id="copier",
            host="10.0.0.1",
            port=9,
            software_name="librdkafka",
            software_version="2.5",
            principal="User:a",
            listener="PLAINTEXT",
            connection_id=1,
        )

    def ask(self, api: str, *states: str, error: str = "NONE", because: str = "", is_answered: bool = True) -> None:
        """A request, what the coordinator writes meanwhile, and its answer."""
        asked = self.journal.asked("tx", self.peer, api, 4, {"producerId": 1, "epoch": 0})
        self.journal.current = asked
        for state in states:
            self.change(state, because or api)
        self.journal.current = None
        if is_answered:
            self.journal.answered("tx", asked, error, {}, (1, 0))

    def change(self, state: str, because: str = "all markers are written") -> None:
        self.journal.changed(
            "tx",
            self.clock(),
            state=state,
            producer_id=1,
            epoch=0,
            partitions=1,
            timeout_ms=60_000,
            because=because,
            is_open=state in ("Ongoing", "PrepareCommit", "PrepareAbort"),
        )

    def write(self, partition: int = 0, offset: int = 0, error: str = "NONE") -> None:
        self.journal.wrote("tx", self.peer, 12, ("t", partition), offset, header(), error, self.clock())

    def mark(self, *, commit: bool = True, partition: int = 0) -> None:
        self.journal.marked(
            1, 0, ("t", partition, 9), commit=commit, by_operator=False, error="NONE", now_ms=self.clock()
        )

    def committed(self) -> TransactionTrace:
        self.ask("EndTxn", "PrepareCommit", because="EndTxn, commit")
        self.mark()
        self.change("CompleteCommit")
        return self.told()

    def told(self) -> TransactionTrace:
        """Of what ended last; nothing else waits."""
        trace = trace_of(self.waiting.next())
        assert len(self.waiting) == 0
        root = trace.root
        assert all(root.start_ms <= one.start_ms <= one.end_ms <= root.end_ms for one in trace.children)
        return trace


def header() -> BatchHeader:
    records = [NewRecord(key=None, value=b"x", timestamp_ms=1)] * 2
    return read_header(build_batch(records, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))


def names(trace: TransactionTrace) -> list[str]:
    return [one.name for one in trace.children]


def one(trace: TransactionTrace, name: str) -> TracedSpan:
    (found,) = [span for span in trace.children if span.name == name]
    return found


def test_it_begins_with_the_request_that_opened_it() -> None:
    story = Story()
    story.ask("InitProducerId", "Empty")
    story.ask("EndTxn", error="INVALID_TXN_STATE")
    story.ask("AddPartitionsToTxn", "Ongoing")
    story.write()
    trace = story.committed()
    assert names(trace) == ["AddPartitionsToTxn", "Produce t", "EndTxn", "PrepareCommit", "COMMIT markers"]
    assert trace.root.start_ms == one(trace, "AddPartitionsToTxn").start_ms
    assert trace.root.attributes["tallystick.transaction.is_whole"] is True
    assert [span.name for span in trace.before] == ["InitProducerId"]
    assert [state for state, _ in trace.states] == ["Ongoing", "PrepareCommit", "CompleteCommit"]


def test_a_transaction_has_nothing_of_the_one_before() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    story.write()
    story.committed()
    story.change("Ongoing", "partitions")
    story.write(1)
    trace = story.committed()
    (produced,) = [span for span in trace.children if span.name == "Produce t"]
    assert produced.attributes["messaging.destination.partition.id"] == "1"
    assert trace.before == []


def test_batches_into_one_partition_are_one_span() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    story.write(0, 0)
    story.ask("AddPartitionsToTxn")  # ends the run of batches
    story.write(0, 2)
    story.write(0, 4)
    trace = story.committed()
    produced = one(trace, "Produce t")
    assert produced.attributes["tallystick.batches"] == 3
    assert produced.attributes["messaging.batch.message_count"] == 6
    assert (produced.attributes["tallystick.offset.first"], produced.attributes["tallystick.offset.last"]) == (0, 5)
    assert produced.end_ms > produced.start_ms
    assert trace.root.attributes["messaging.batch.message_count"] == 6


def test_batches_that_were_refused_stand_apart_and_are_not_counted() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    story.write()
    story.write(error="INVALID_PRODUCER_EPOCH")
    trace = story.committed()
    refused = [span for span in trace.children if span.error]
    assert [span.attributes["error.type"] for span in refused] == ["INVALID_PRODUCER_EPOCH"]
    assert trace.root.attributes["messaging.batch.message_count"] == 2


def test_prepare_lasts_until_something_that_waits_for_it() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    trace = story.committed()
    prepared, markers, ended = (one(trace, name) for name in ("PrepareCommit", "COMMIT markers", "EndTxn"))
    assert prepared.end_ms == ended.end_ms
    assert markers.end_ms == trace.root.end_ms > markers.start_ms >= prepared.end_ms


def test_an_answer_that_comes_after_the_end_makes_the_root_longer() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    story.ask("EndTxn", "PrepareCommit", "CompleteCommit", because="EndTxn, commit")
    trace = story.told()
    assert trace.root.end_ms == one(trace, "EndTxn").end_ms > trace.states[-1][1]


def test_a_request_without_an_answer_says_so() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    story.ask("TxnOffsetCommit", is_answered=False)
    trace = story.committed()
    assert one(trace, "TxnOffsetCommit").attributes["tallystick.unanswered"] is True
    assert one(trace, "TxnOffsetCommit").error == ""


def test_outcomes_and_their_reasons() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    assert story.committed().root.error == ""
    for because, outcome, error in (
        ("EndTxn, abort", "abort", "aborted: EndTxn, abort"),
        ("timed out", "timeout", "timed out"),
    ):
        story.change("Ongoing", "partitions")
        story.change("PrepareAbort", because)
        story.mark(commit=False)
        story.change("CompleteAbort")
        root = story.told().root
        assert (root.attributes["tallystick.transaction.outcome"], root.error) == (outcome, error)


def test_a_clock_that_is_set_back_leaves_no_child_outside() -> None:
    story = Story()
    story.ask("AddPartitionsToTxn", "Ongoing")
    story.write()
    story.clock.now_ms -= 500
    trace = story.committed()
    assert trace.root.start_ms < trace.root.end_ms


def test_what_is_forgotten_is_not_made_up() -> None:
    story = Story()
    story.change("Ongoing", "partitions")
    for _ in range(300):  # the ring of an id holds 256
        story.ask("AddPartitionsToTxn")
    trace = story.committed()
    assert trace.root.attributes["tallystick.transaction.is_whole"] is False
    assert trace.root.attributes["tallystick.transaction.outcome"] == "commit"


def test_what_waits_is_bounded_by_weight_and_the_rest_is_counted() -> None:
    story = Story(most_bytes=5_000)
    for _ in range(20):
        story.change("Ongoing", "partitions")
        story.change("PrepareCommit")
        story.change("CompleteCommit")
    kept = len(story.waiting)
    assert 2 < kept < 5
    assert story.waiting.dropped == 20 - kept
    for _ in range(kept):
        story.waiting.next()
    story.change("Ongoing", "partitions")
    story.change("CompleteCommit")
    assert len(story.waiting) == 1  # there is room again
