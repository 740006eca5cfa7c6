"""Each field of the record that a step writes, and which partitions are in a transaction."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.transactions import states
from coordinator.transactions.fencing import (
    Producer,
    Renewal,
    Verdict,
    completed,
    decided,
    end_verdict,
    exhausted,
    fenced,
    is_known,
    needs_new_producer_id,
    renewal,
    renewed,
    unknown_id,
)
from coordinator.transactions.states import (
    NO_TOPIC_ID,
    PartitionLookup,
    TopicPartitions,
    Transaction,
    TransactionState,
    contains,
    growth_until_decided,
    value_version,
)
from protocol.errors import ErrorCode
from tests.unit.transactions.rig import OFFSETS, T0, TOPIC_ID

S = TransactionState
NOW_MS = 99
OTHER_ID = b"\xff" * 16


def an_id(state: S, **changes: Any) -> Transaction:
    """No two fields have the same value."""
    whole = Transaction(
        producer_id=10,
        producer_epoch=20,
        timeout_ms=30,
        state=state,
        last_update_ms=40,
        start_ms=50,
        previous_producer_id=60,
        next_producer_id=-1,
        last_producer_epoch=70,
        client_version=1,
        partitions=(T0,),
    )
    return replace(whole, **changes)


OPEN = an_id(S.ONGOING)


@pytest.mark.parametrize(
    ("before", "commit", "version", "expected"),
    [
        (OPEN, True, 2, {"state": S.PREPARE_COMMIT, "producer_epoch": 21, "last_producer_epoch": 20}),
        (OPEN, False, 2, {"state": S.PREPARE_ABORT, "producer_epoch": 21, "last_producer_epoch": 20}),
        (OPEN, True, 0, {"state": S.PREPARE_COMMIT}),
        (OPEN, True, 1, {"state": S.PREPARE_COMMIT}),
        (
            an_id(S.COMPLETE_COMMIT),
            False,
            2,
            {"state": S.PREPARE_ABORT, "producer_epoch": 21, "last_producer_epoch": 20, "start_ms": NOW_MS},
        ),
        (
            replace(OPEN, producer_epoch=32767),
            False,
            2,
            {"state": S.PREPARE_ABORT, "producer_epoch": 32767, "last_producer_epoch": 32767},
        ),
    ],
)
def test_a_decision(before: Transaction, commit: bool, version: int, expected: dict[str, Any]) -> None:
    after = decided(before, commit=commit, client_version=version, next_producer_id=80, now_ms=NOW_MS)
    always = {
        "previous_producer_id": 10,
        "next_producer_id": 80,
        "client_version": version,
        "last_update_ms": NOW_MS,
    }
    assert after == replace(before, **(always | expected))


@pytest.mark.parametrize(
    ("epoch", "level", "expected"),
    [
        (20, 2, {"producer_epoch": 21, "last_producer_epoch": 20, "client_version": 2}),
        (20, 3, {"producer_epoch": 21, "last_producer_epoch": 20, "client_version": 2}),
        (20, 1, {"producer_epoch": 21, "last_producer_epoch": -1, "client_version": 0}),
        (20, 0, {"producer_epoch": 21, "last_producer_epoch": -1, "client_version": 0}),
        (32766, 0, {"producer_epoch": 32767, "last_producer_epoch": -1, "client_version": 0}),
        (32767, 0, {"producer_epoch": 32767, "last_producer_epoch": -1, "client_version": 0}),
    ],
)
def test_an_abort_by_the_broker(epoch: int, level: int, expected: dict[str, Any]) -> None:
    before = replace(OPEN, producer_epoch=epoch)
    after = fenced(before, cluster_version=level, next_producer_id=80, now_ms=NOW_MS)
    always = {"state": S.PREPARE_ABORT, "previous_producer_id": 10, "next_producer_id": 80, "last_update_ms": NOW_MS}
    assert after == replace(before, **(always | expected))


@pytest.mark.parametrize(
    ("state", "client_version", "next_producer_id", "expected"),
    [
        (S.PREPARE_COMMIT, 2, -1, {"state": S.COMPLETE_COMMIT}),
        (S.PREPARE_ABORT, 2, -1, {"state": S.COMPLETE_ABORT}),
        (S.PREPARE_ABORT, 2, 0, {"state": S.COMPLETE_ABORT, "producer_id": 0, "producer_epoch": 0}),
        (S.PREPARE_COMMIT, 3, 80, {"state": S.COMPLETE_COMMIT, "producer_id": 80, "producer_epoch": 0}),
        (S.PREPARE_COMMIT, 1, 80, {"state": S.COMPLETE_COMMIT}),
    ],
)
def test_a_completion(state: S, client_version: int, next_producer_id: int, expected: dict[str, Any]) -> None:
    before = an_id(state, client_version=client_version, next_producer_id=next_producer_id)
    always = {"previous_producer_id": 10, "next_producer_id": -1, "partitions": (), "last_update_ms": NOW_MS}
    assert completed(before, NOW_MS) == replace(before, **(always | expected))


@pytest.mark.parametrize(
    ("how", "expected", "identity"),
    [
        (Renewal.BUMP, None, (10, 21, -1)),
        (Renewal.BUMP, Producer(10, 20), (10, 21, 20)),
        (Renewal.ROTATE, None, (80, 0, -1)),
        (Renewal.ROTATE, Producer(10, 20), (80, 0, 20)),
        (Renewal.REPEAT, Producer(10, 70), (10, 20, 70)),
    ],
)
def test_a_renewal(how: Renewal, expected: Producer | None, identity: tuple[int, int, int]) -> None:
    before = an_id(S.COMPLETE_ABORT)
    after = renewed(before, how, expected=expected, timeout_ms=31, next_producer_id=80, now_ms=NOW_MS)
    assert (after.producer_id, after.producer_epoch, after.last_producer_epoch) == identity
    always = {
        "state": S.EMPTY,
        "previous_producer_id": 10,
        "timeout_ms": 31,
        "partitions": (),
        "start_ms": -1,
        "last_update_ms": NOW_MS,
    }
    fields = dict(zip(("producer_id", "producer_epoch", "last_producer_epoch"), identity, strict=True))
    assert after == replace(before, **(always | fields))


@pytest.mark.parametrize(
    ("epoch", "last_epoch", "expected", "how"),
    [
        (20, 19, None, Renewal.BUMP),
        (32765, 19, None, Renewal.BUMP),
        (32766, 19, None, Renewal.ROTATE),
        (32767, 19, None, Renewal.ROTATE),
        (20, 19, 20, Renewal.BUMP),
        (32766, 19, 32766, Renewal.ROTATE),
        (20, 19, 19, Renewal.REPEAT),
        (32766, 32765, 32765, Renewal.REPEAT),
        (32767, 32766, 32766, Renewal.ROTATE),
        (20, 19, 18, ErrorCode.PRODUCER_FENCED),
        (20, 19, 21, ErrorCode.PRODUCER_FENCED),
        (20, -1, 19, ErrorCode.PRODUCER_FENCED),
        (-1, -1, 5, Renewal.BUMP),
    ],
)
def test_how_an_id_is_renewed(epoch: int, last_epoch: int, expected: int | None, how: Renewal | ErrorCode) -> None:
    stored = an_id(S.EMPTY, producer_epoch=epoch, last_producer_epoch=last_epoch)
    assert renewal(stored, None if expected is None else Producer(10, expected)) is how


@pytest.mark.parametrize(
    ("epoch", "expected", "known"),
    [
        (20, Producer(10, 1), True),
        (20, Producer(11, 20), False),
        (20, Producer(60, 32765), False),
        (20, Producer(60, 32766), True),
        (20, Producer(60, 32767), True),
        (20, Producer(61, 32767), False),
        (-1, Producer(11, 20), True),
    ],
)
def test_whose_identity_is_known(epoch: int, expected: Producer, known: bool) -> None:
    assert is_known(an_id(S.EMPTY, producer_epoch=epoch), expected) is known


MAPPING, FENCED = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("epoch", "claimed", "said"),
    [
        (0, Producer(60, 32766), Verdict.ALREADY),
        (0, Producer(60, 32765), MAPPING),
        (0, Producer(60, 32767), MAPPING),
        (0, Producer(61, 32766), MAPPING),
        (1, Producer(60, 32766), MAPPING),
        (0, Producer(10, 32766), FENCED),
        (1, Producer(10, 0), Verdict.ALREADY),
        (1, Producer(60, 0), MAPPING),
    ],
)
def test_which_identity_retries_a_decision(epoch: int, claimed: Producer, said: Verdict | ErrorCode) -> None:
    """Of the producer id before the rotation: the last epoch it could bump, and while nobody has gone on since."""
    stored = an_id(S.COMPLETE_COMMIT, producer_epoch=epoch, client_version=2)
    assert end_verdict(stored, claimed, commit=True, client_version=2) is said


@pytest.mark.parametrize(("stored_version", "retried"), [(0, FENCED), (1, FENCED), (2, Verdict.ALREADY)])
def test_a_decision_of_the_classic_protocol_is_not_retried_with_the_epoch_before(
    stored_version: int, retried: Verdict | ErrorCode
) -> None:
    """The bump in between was that of a successor (decision 0008)."""
    stored = an_id(S.COMPLETE_ABORT, client_version=stored_version)
    before, current = Producer(10, 19), Producer(10, 20)
    assert end_verdict(stored, before, commit=False, client_version=2) is retried
    assert end_verdict(stored, before, commit=True, client_version=2) is ErrorCode.INVALID_TXN_STATE
    assert end_verdict(stored, current, commit=False, client_version=2) is Verdict.DECIDE
    for classic in (0, 1):
        assert end_verdict(stored, current, commit=False, client_version=classic) is Verdict.ALREADY
        assert end_verdict(stored, before, commit=False, client_version=classic) is FENCED


def test_an_id_that_nobody_has() -> None:
    assert unknown_id("tx") is MAPPING
    assert unknown_id("") is ErrorCode.INVALID_REQUEST, "the fault of the request"


def test_when_a_new_producer_id_is_needed() -> None:
    assert [exhausted(epoch) for epoch in (0, 32765, 32766, 32767)] == [False, False, True, True]
    used_up = replace(OPEN, producer_epoch=32766)
    assert [needs_new_producer_id(used_up, version) for version in (0, 1, 2, 3)] == [False, False, True, True]
    assert not needs_new_producer_id(replace(OPEN, producer_epoch=32765), 2)


@pytest.mark.parametrize(
    ("client_version", "next_producer_id", "layouts"),
    [(0, -1, [0, 1, 1]), (1, -1, [0, 1, 1]), (2, -1, [1, 1, 1]), (0, 0, [1, 1, 1]), (3, -1, [1, 1, 1])],
)
def test_the_layout_of_a_record(client_version: int, next_producer_id: int, layouts: list[int]) -> None:
    after = replace(OPEN, client_version=client_version, next_producer_id=next_producer_id)
    assert [value_version(after, level) for level in (0, 1, 2)] == layouts


def test_how_much_a_decision_may_add() -> None:
    wide = replace(OPEN, partitions=(T0, OFFSETS))
    assert growth_until_decided(wide, 1) == 64
    assert growth_until_decided(wide, 0) == 64 + 2 * 24


@pytest.mark.parametrize(
    ("topic", "topic_id", "partition", "inside"),
    [
        ("t", TOPIC_ID, 1, True),
        ("t", TOPIC_ID, 0, False),
        ("t", NO_TOPIC_ID, 1, True),
        ("t", OTHER_ID, 1, False),
        ("u", TOPIC_ID, 1, False),
        ("u", NO_TOPIC_ID, 2, True),
        ("u", OTHER_ID, 2, True),
        ("u", OTHER_ID, 1, False),
        ("v", NO_TOPIC_ID, 2, False),
    ],
)
def test_which_partitions_are_inside(topic: str, topic_id: bytes, partition: int, inside: bool) -> None:
    """An id that is not known, on either side, leaves the name to decide."""
    known = (
        TopicPartitions("a", TOPIC_ID, (0,)),
        TopicPartitions("t", TOPIC_ID, (1, 3)),
        TopicPartitions("u", NO_TOPIC_ID, (2,)),
    )
    assert contains(known, topic, topic_id, partition) is inside
    lookup = PartitionLookup(known)
    assert lookup.contains(topic, topic_id, partition) is inside
    assert lookup.missing(TopicPartitions(topic, topic_id, (partition, 9))) == ({9} if inside else {partition, 9})
    assert not contains((), topic, topic_id, partition)


def test_the_producer_ids_of_an_id() -> None:
    assert replace(OPEN, next_producer_id=80).producer_ids == {10, 60, 80, -1}


@pytest.mark.parametrize("length", [256, 257])
def test_keys_that_are_remembered_are_short(length: int) -> None:
    """Clients choose them, and a thousand of the longest would be 32 MB."""
    for convert, kept, key in (
        (states.key_bytes, states._short_key_bytes, "x" * length),
        (states.read_key, states._read_short_key, states.key_bytes("x" * (length - 4))),
    ):
        assert len(key) == length
        kept.cache_clear()
        first = convert(key)  # type: ignore[operator]
        assert kept.cache_info().currsize == (length == 256)
        assert convert(key) == first  # type: ignore[operator]
        assert kept.cache_info().hits == (length == 256)


def test_a_union_keeps_the_order_of_what_is_known() -> None:
    """Where a log names a topic twice."""
    known = (TopicPartitions("t", TOPIC_ID, (1,)), TopicPartitions("t", TOPIC_ID, (0,)))
    assert states.united(known, [TopicPartitions("a", OTHER_ID, (2,))]) == (
        TopicPartitions("a", OTHER_ID, (2,)),
        *known,
    )
