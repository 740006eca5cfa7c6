"""What is remembered between asking the transaction coordinator and appending (KIP-890)."""

from broker.partitions.verification import Guard, Verifications
from protocol.errors import ErrorCode
from storage.producers.producer_changes import EndMarker, Tentative
from tests.unit.partition.rig import Rig, header_of, in_transaction
from tests.unit.partition.test_transactions_in_a_partition import append_with


def begin(verifications: Verifications, producer_id: int, epoch: int, sequence: int, now_ms: int = 0) -> None:
    verifications.begin(producer_id, epoch, sequence, supports_epoch_bump=True, now_ms=now_ms)


def lowest(verifications: Verifications, producer_id: int) -> int | None:
    tentative = verifications.tentative(producer_id)
    return None if tentative is None else tentative.lowest_sequence


def test_an_earlier_epoch_bounds_nobody() -> None:
    """A zombie's batch is refused; the first of its successor has a higher sequence all the same."""
    verifications = Verifications()
    begin(verifications, 7, 1, 5)
    begin(verifications, 7, 0, 3)
    assert lowest(verifications, 7) == 5
    begin(verifications, 7, 1, 4)
    assert lowest(verifications, 7) == 4
    begin(verifications, 7, 2, 9)
    assert lowest(verifications, 7) == 9


def test_a_question_is_answered_for_its_producer_alone() -> None:
    verifications = Verifications()
    guard = verifications.begin(7, 1, 5, supports_epoch_bump=True, now_ms=0)
    other = verifications.begin(8, 1, 5, supports_epoch_bump=False, now_ms=0)
    assert verifications.begin(7, 1, 6, supports_epoch_bump=True, now_ms=0) is guard is not other
    assert verifications.is_current(7, guard) and verifications.is_current(8, other)
    assert [verifications.is_current(*pair) for pair in ((7, other), (7, Guard()), (7, None), (9, None))] == [False] * 4
    assert (verifications.tentative(7), verifications.tentative(8)) == (Tentative(5, True), Tentative(5, False))
    verifications.data_appended(7)
    verifications.data_appended(7)
    assert verifications.tentative(7) is None and not verifications.is_current(7, guard)
    assert len(verifications) == 1


def test_a_repeated_batch_of_the_lowest_sequence_bounds_nobody() -> None:
    """Of the same epoch, and from the very sequence; what follows it is the next that can come."""
    for epoch, sequence, left in ((1, 5, 9), (0, 5, 5), (2, 5, 5), (1, 4, 5), (1, 6, 5)):
        verifications = Verifications()
        begin(verifications, 7, 1, 5)
        verifications.repeated(header_of(7, epoch, sequence), 9)
        verifications.repeated(header_of(8, epoch, sequence), 9)
        assert (lowest(verifications, 7), len(verifications)) == (left, 1)


def test_a_marker_ends_the_questions_of_its_transaction() -> None:
    """KAFKA-18654: with the second protocol its epoch is that of the next one."""
    for version, asked, marker, stays in ((2, 1, 1, True), (3, 1, 1, True), (1, 1, 1, False), (2, 0, 1, False)):
        verifications = Verifications()
        begin(verifications, 7, asked, 5)
        begin(verifications, 8, asked, 5)
        verifications.marker_appended(EndMarker(7, marker, True, 0, 0, version))
        verifications.marker_appended(EndMarker(9, marker, True, 0, 0, version))
        assert (lowest(verifications, 7), lowest(verifications, 8)) == (5 if stays else None, 5)


def test_the_oldest_questions_are_forgotten_first_and_no_more_than_asked() -> None:
    verifications = Verifications()
    for producer_id in range(5):
        begin(verifications, producer_id, 0, 0, now_ms=10 * producer_id)
    assert verifications.forget_oldest(2, 30) == 2
    assert [lowest(verifications, one) for one in range(5)] == [None, None, 0, 0, 0]
    assert verifications.forget_oldest(2, 30) == 1
    assert verifications.forget_oldest(2, 30) == 0
    assert len(verifications) == 2


def test_what_is_still_to_come_bounds_a_producer_that_is_known_as_well() -> None:
    """KAFKA-14920: also where what was asked for before is too old to be known as a repeat."""
    rig = Rig()
    for sequence in range(7):
        rig.transact(in_transaction(5, 0, sequence))
    rig.end(5, 0, commit=True, version=0)
    guard = rig.partition.begin_verification(5, 0, 0, False)
    assert rig.partition.begin_verification(5, 0, 7, False) is guard
    for sequence in (0, 7):
        assert append_with(rig, guard, in_transaction(5, 0, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
