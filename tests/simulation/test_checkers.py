"""Each checker objects to the kind of wrong that it is there for, and to nothing in a history where all is well."""

from collections.abc import Callable

import pytest

from protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.simulation.checkers import CHECKERS
from tests.simulation.history import (
    CameBack,
    Claim,
    Commit,
    EpochCommit,
    FinalPartition,
    Handing,
    History,
    Holding,
    Look,
    Ownership,
    Place,
    Reading,
    Saying,
    Seen,
    Transaction,
    Write,
)

A, KEYED = ("a", 0), ("c", 0)
PRODUCER = (7, 0)


class Story:
    """A history that is made up: four records of an idempotent producer, of which all is as it should be."""

    def __init__(self) -> None:
        self.history = History()
        self.reading = Reading("reader", committed_only=True)
        self.history.readings.append(self.reading)
        self.history.compacted.add("c")
        self.history.final = {A: FinalPartition(0, 0, 0, [], []), KEYED: FinalPartition(0, 0, 0, [], [])}
        for _ in range(4):
            self.record()

    def record(
        self,
        place: Place = A,
        *,
        transaction: Transaction | None = None,
        committed: bool = True,
        key: bytes | None = None,
    ) -> Write:
        """One that was acknowledged, stands in the log, and was shown."""
        final = self.history.final[place]
        write = self.history.write(
            "writer",
            place,
            producer=PRODUCER,
            sequence=len(final.everything),
            transaction=transaction,
            key=key,
        )
        write.acked, write.offset, write.sends = True, len(final.everything), 1
        final.everything.append((write.offset, write.number))
        if committed:
            final.committed.append((write.offset, write.number))
        return write

    def transaction(self, *, commit: bool) -> Transaction:
        made = self.history.begin("writer", "tx", PRODUCER, 2)
        made.decision, made.outcome = commit, commit
        return made

    def decides(self, transaction: Transaction) -> None:
        transaction.decided_at = self.history.note("end")

    def shows(self, write: Write, place: Place = A) -> None:
        assert write.offset is not None
        self.reading.seen.append(Seen(self.history.note("saw"), place, write.offset, write.number))

    def looks(self, position: int, next_position: int, *, high_watermark: int = 4, stable: int = 4) -> None:
        sent_at = self.history.note("asks")
        time = self.history.note("is told")
        self.reading.looks.append(
            Look(time, sent_at, A, position, next_position, high_watermark, stable, 0, reset=False)
        )


def _lost_write(story: Story) -> None:
    story.history.final[A].everything.pop(1)


def _duplicate(story: Story) -> None:
    final = story.history.final[A]
    final.everything.append((4, final.everything[-1][1]))


def _order_of_sends(story: Story) -> None:
    story.history.writes[0].sequence = 9


def _not_overtaken(story: Story) -> None:
    story.history.writes[0].overtaken = True


def _inconsistent_offsets(story: Story) -> None:
    story.reading.seen.append(Seen(9, A, 2, 3))


def _torn(story: Story) -> None:
    transaction = story.transaction(commit=True)
    transaction.outcome = None
    story.record(transaction=transaction)
    story.record(transaction=transaction, committed=False)


def _aborted_read(story: Story) -> None:
    transaction = story.transaction(commit=False)
    story.shows(story.record(transaction=transaction, committed=False))


def _precommitted_read(story: Story) -> None:
    transaction = story.transaction(commit=True)
    story.shows(story.record(transaction=transaction))
    story.decides(transaction)


def _lost_commit(story: Story) -> None:
    transaction = story.transaction(commit=True)
    story.record(transaction=transaction, committed=False)


def _order_of_reads(story: Story) -> None:
    story.shows(story.history.writes[2])
    story.shows(story.history.writes[1])


def _skipped_read(story: Story) -> None:
    story.shows(story.history.writes[0])
    story.looks(0, 2)


def _lost_read(story: Story) -> None:
    write = story.record()
    write.acked = False
    story.shows(write)
    story.history.final[A].everything.pop()
    story.history.final[A].committed.pop()


def _compacted_away(story: Story) -> None:
    story.record(KEYED, key=b"k")
    story.record(KEYED, key=b"k")
    story.history.final[KEYED].committed.pop()


def _tombstone_too_early(story: Story) -> None:
    story.record(KEYED, key=b"k")
    story.record(KEYED, key=b"k").tombstone = True
    story.history.final[KEYED].committed.pop()


def _deleted_for_good(story: Story) -> None:
    story.history.trims[A] = story.history.final[A].log_start_offset + 1


def _offset_going_back(story: Story) -> None:
    story.looks(0, 0, stable=4)
    story.looks(0, 0, stable=3)


def _fenced_write(story: Story) -> None:
    transaction = story.transaction(commit=True)
    story.history.claims.append(Claim(story.history.note("claimed"), "tx", PRODUCER[0], PRODUCER[1] + 1))
    story.record(transaction=transaction)


def _offsets_apart(story: Story) -> None:
    story.transaction(commit=False).offsets["group", "a", 0] = 5
    story.history.final_offsets["group", "a", 0] = 5


def _offsets_kept(story: Story) -> None:
    story.history.commits["simple", "a", 0] = Commit(acked=5, sent=6)
    story.history.final_offsets["simple", "a", 0] = 4


def _processed_twice(story: Story) -> None:
    for _ in range(2):
        story.record().source = (A, 0)
    story.history.final_offsets["workers", "a", 0] = 1


def _owned_at_once(story: Story) -> None:
    story.history.holdings += [Holding("group", "one", A, 1.0, 3.0), Holding("group", "other", A, 2.0, 4.0)]


def _committed_by_the_former_owner(story: Story) -> None:
    story.history.holdings += [Holding("group", "one", A, 1.0, 2.0), Holding("group", "other", A, 2.0, 4.0)]
    story.history.epoch_commits.append(EpochCommit("group", "one", A, 3.0))


def _committed_after_another_had_it(story: Story) -> None:
    story.history.holdings += [Holding("group", "one", A, 1.0, 2.0), Holding("group", "other", A, 2.0, 2.5)]
    story.history.epoch_commits.append(EpochCommit("group", "one", A, 3.0))


def _two_owners(story: Story) -> None:
    story.history.ownerships += [Ownership("group", 3, member, (A,), asked_at=0) for member in ("one", "other")]


def _one_identity_for_two(story: Story) -> None:
    trace = story.history.trace
    for client in ("one", "other"):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        answer = InitProducerIdResponse(producer_id=7, producer_epoch=0)
        trace.receive(trace.send(client, request, 4), answer)


class Sharing:
    """A share group in a story; times are counted on."""

    def __init__(self, story: Story) -> None:
        self.story = story
        story.history.shares = "everything"

    def hands(self, member: str, *offsets: int) -> Handing:
        sent_at, heard_at = self.story.history.note("asks"), self.story.history.note("hears")
        span = range(offsets[0], offsets[-1] + 1)
        handing = Handing(member, A, span, frozenset(offsets), 1, sent_at, heard_at)
        self.story.history.handings.append(handing)
        return handing

    def says(self, handing: Handing, offset: int, kind: int = 1, *, kept: bool = True, refused: bool = False) -> None:
        saying = Saying(handing, offset, kind, self.story.history.note("says"), refused=refused)
        saying.kept_at = self.story.history.note("is told") if kept else None
        self.story.history.sayings.append(saying)


def _shared_again(story: Story) -> None:
    sharing = Sharing(story)
    sharing.says(sharing.hands("one", 0, 3), 2)
    sharing.hands("other", 2)


def _shared_at_once(story: Story) -> None:
    sharing = Sharing(story)
    handing = sharing.hands("one", 0, 3)
    sharing.hands("other", 3)
    sharing.says(handing, 3, 2)


def _lost_share(story: Story) -> None:
    sharing = Sharing(story)
    handing = sharing.hands("one", 0, 1, 2, 3)
    for offset in (0, 1, 2):
        sharing.says(handing, offset, kept=False)
    sharing.says(handing, 3, 0)


def _refused_share(story: Story) -> None:
    sharing = Sharing(story)
    handing = sharing.hands("one", 0, 1, 2, 3)
    for offset in range(4):
        sharing.says(handing, offset, kept=False, refused=offset == 1)


WRONGS: tuple[tuple[str, Callable[[Story], None]], ...] = (
    ("lost write", _lost_write),
    ("duplicate", _duplicate),
    ("order of sends", _order_of_sends),
    ("overtaken", _not_overtaken),
    ("inconsistent offsets", _inconsistent_offsets),
    ("torn transaction", _torn),
    ("aborted read", _aborted_read),
    ("precommitted read", _precommitted_read),
    ("lost commit", _lost_commit),
    ("order of reads", _order_of_reads),
    ("skipped read", _skipped_read),
    ("lost read", _lost_read),
    ("compacted away", _compacted_away),
    ("compacted away", _tombstone_too_early),
    ("offset going back", _offset_going_back),
    ("deleted for good", _deleted_for_good),
    ("fenced write", _fenced_write),
    ("offsets apart", _offsets_apart),
    ("offsets kept", _offsets_kept),
    ("processed", _processed_twice),
    ("two owners", _two_owners),
    ("owned at once", _owned_at_once),
    ("owned at once", _committed_by_the_former_owner),
    ("owned at once", _committed_after_another_had_it),
    ("shared again", _shared_again),
    ("shared at once", _shared_at_once),
    ("lost share", _lost_share),
    ("lost share", _refused_share),
    ("second opinion", _one_identity_for_two),
)


@pytest.mark.parametrize(("name", "wrong"), WRONGS, ids=[wrong.__name__.strip("_") for _, wrong in WRONGS])
def test_a_checker_objects_to(name: str, wrong: Callable[[Story], None]) -> None:
    story = Story()
    wrong(story)
    assert list(CHECKERS[name](story.history))


def test_a_member_that_hears_too_late_never_had_it() -> None:
    story = Story()
    story.history.holdings += [Holding("group", "one", A, 3.0, 2.5), Holding("group", "other", A, 2.9, 4.0)]
    assert list(CHECKERS["owned at once"](story.history)) == []
    story.history.epoch_commits.append(EpochCommit("group", "one", A, 3.0))
    assert list(CHECKERS["owned at once"](story.history)), "that it commits is as wrong as ever"


def test_a_member_that_hears_late_commits_where_nobody_else_is() -> None:
    story = Story()
    story.history.holdings += [Holding("group", "one", A, 3.0, 2.5), Holding("group", "other", A, 1.0, 2.0)]
    story.history.epoch_commits.append(EpochCommit("group", "one", A, 3.0))
    assert list(CHECKERS["owned at once"](story.history)) == []


def test_every_checker_notices_a_wrong() -> None:
    assert {name for name, _ in WRONGS} == set(CHECKERS)


@pytest.mark.parametrize(
    ("reader", "time", "offsets", "is_excused"),
    [
        ("writer-reader-0", 0, range(0, 1), True),
        ("writer-reader-0", 0, range(1, 9), False),
        ("writer-reader-0", 99, range(0, 1), False),
        ("reader", 0, range(0, 1), False),
    ],
    ids=["what came back", "another offset", "twice before it came back", "for somebody else"],
)
def test_only_what_came_back_may_be_processed_again(reader: str, time: int, offsets: range, is_excused: bool) -> None:
    """A crash took back a log start that a worker had seen, and it went to the earliest offset (KIP-447)."""
    story = Story()
    _processed_twice(story)
    story.history.readings.append(Reading(reader, committed_only=True, came_back=[CameBack(time, A, offsets)]))
    assert (not list(CHECKERS["processed"](story.history))) == is_excused


@pytest.mark.parametrize(
    ("step", "is_excused"), [(1, False), (2, True), (3, False)], ids=["before both", "in between", "after both"]
)
def test_a_group_may_restart_when_the_clock_jumps_forward(step: int, is_excused: bool) -> None:
    """Found without members and offsets, it was forgotten: its first generation has an owner before and one after
    (KIP-211; seed 12300)."""
    history = History()
    history.steps_ahead.append(step)
    history.ownerships += [Ownership("group", 1, "one", (A,), asked_at=1), Ownership("group", 1, "other", (A,), 2)]
    assert (not list(CHECKERS["two owners"](history))) == is_excused


def test_a_share_group_may_go_round_in_circles() -> None:
    """What was given back is handed out again; what a member says too late, of what is settled, is passed over."""
    story = Story()
    sharing = Sharing(story)
    handing = sharing.hands("one", 0, 1, 2, 3)
    for offset, kind in enumerate((1, 3, 2)):
        sharing.says(handing, offset, kind)
    again = sharing.hands("other", 2, 3)
    for offset in (2, 3):
        sharing.says(again, offset)
    sharing.says(handing, 3)
    assert [
        text for name in ("shared again", "shared at once", "lost share") for text in CHECKERS[name](story.history)
    ] == []


def test_nobody_objects_where_all_is_well() -> None:
    story = Story()
    for commit in (True, False):
        transaction = story.transaction(commit=commit)
        written = {
            A: story.record(A, transaction=transaction, committed=commit),
            KEYED: story.record(KEYED, transaction=transaction, committed=commit, key=b"k"),
        }
        story.decides(transaction)
        for place, write in written.items():
            if commit:
                story.shows(write, place)
    assert [text for check in CHECKERS.values() for text in check(story.history)] == []
