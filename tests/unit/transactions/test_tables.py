"""Every cell of the tables that say what a request on an id in a given state gets."""

from dataclasses import replace

import pytest

from coordinator.transactions.states import TopicPartitions, TransactionState
from protocol.errors import ErrorCode
from tests.unit.transactions.rig import T0, T1, TOPIC_ID, Rig, error, identity, in_state

S = TransactionState
OK, MAPPING, STATE, BUSY, FENCED = 0, 49, 48, 51, 90

# §2.7: state, commit, answer, state afterwards (before any marker is written)
END_TV0 = [
    (S.ONGOING, True, OK, S.PREPARE_COMMIT),
    (S.ONGOING, False, OK, S.PREPARE_ABORT),
    (S.PREPARE_COMMIT, True, BUSY, S.PREPARE_COMMIT),
    (S.PREPARE_COMMIT, False, BUSY, S.PREPARE_COMMIT),
    (S.PREPARE_ABORT, True, BUSY, S.PREPARE_ABORT),
    (S.PREPARE_ABORT, False, BUSY, S.PREPARE_ABORT),
    (S.COMPLETE_COMMIT, True, OK, S.COMPLETE_COMMIT),
    (S.COMPLETE_COMMIT, False, STATE, S.COMPLETE_COMMIT),
    (S.COMPLETE_ABORT, True, STATE, S.COMPLETE_ABORT),
    (S.COMPLETE_ABORT, False, OK, S.COMPLETE_ABORT),
    (S.EMPTY, True, STATE, S.EMPTY),
    (S.EMPTY, False, STATE, S.EMPTY),
]


@pytest.mark.parametrize(("state", "commit", "answer", "after"), END_TV0)
def test_end_of_the_classic_protocol(state: S, commit: bool, answer: int, after: S) -> None:
    """I07: table 2.7. The identity in the answer is -1, -1: the client keeps the one it has."""
    rig = Rig(driven=False)
    rig.seed(in_state(state))
    ticket = rig.end((7, 3), commit=commit, version=0)
    assert error(ticket) == answer
    assert (ticket.answer.producer_id, ticket.answer.producer_epoch) == (-1, -1)  # type: ignore[attr-defined]
    assert rig.state().state is after
    assert rig.state().producer_epoch == 3


@pytest.mark.parametrize("state", list(S))
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("claimed", "answer"), [((8, 3), MAPPING), ((7, 2), FENCED), ((7, 4), FENCED)])
def test_end_of_the_classic_protocol_by_somebody_else(
    state: S, commit: bool, claimed: tuple[int, int], answer: int
) -> None:
    """I07, KAFKA-9600: ids and epochs are compared first, and strictly; a PREPARE state does not hide a stranger."""
    rig = Rig(driven=False)
    rig.seed(in_state(state))
    before = rig.state()
    assert error(rig.end(claimed, commit=commit, version=0)) == answer
    assert rig.state() == before


# §2.8: state, decision, client; answer, state afterwards (None: a state change is not expected)
# "current": the stored epoch. "retry": the epoch before. "older": two before. "newer": one ahead. "other": another id.
# "overflow": (previous id, 32766) where the id has rotated to epoch 0.
COMMIT, ABORT = True, False
END_TV2 = [
    (S.ONGOING, ABORT, "retry", FENCED, None),
    (S.ONGOING, ABORT, "current", OK, S.PREPARE_ABORT),
    (S.ONGOING, COMMIT, "retry", FENCED, None),
    (S.ONGOING, COMMIT, "current", OK, S.PREPARE_COMMIT),
    (S.EMPTY, ABORT, "retry", FENCED, None),
    (S.EMPTY, ABORT, "current", OK, S.COMPLETE_ABORT),
    (S.EMPTY, COMMIT, "retry", FENCED, None),
    (S.EMPTY, COMMIT, "current", STATE, None),
    (S.COMPLETE_ABORT, ABORT, "retry", OK, None),
    (S.COMPLETE_ABORT, ABORT, "current", OK, S.COMPLETE_ABORT),
    (S.COMPLETE_ABORT, COMMIT, "retry", STATE, None),
    (S.COMPLETE_ABORT, COMMIT, "current", STATE, None),
    (S.COMPLETE_COMMIT, ABORT, "retry", STATE, None),
    (S.COMPLETE_COMMIT, ABORT, "current", OK, S.COMPLETE_ABORT),
    (S.COMPLETE_COMMIT, COMMIT, "retry", OK, None),
    (S.COMPLETE_COMMIT, COMMIT, "current", STATE, None),
    # A PREPARE state answers 51 before it compares anything, as Kafka's pending state does.
    *[
        (state, decision, who, BUSY, None)
        for state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
        for decision in (ABORT, COMMIT)
        for who in ("retry", "current", "older", "newer", "other", "overflow")
    ],
    *[
        (state, decision, who, answer, None)
        for state in (S.ONGOING, S.EMPTY, S.COMPLETE_ABORT, S.COMPLETE_COMMIT)
        for decision in (ABORT, COMMIT)
        for who, answer in (("older", FENCED), ("newer", FENCED), ("other", MAPPING))
    ],
    (S.ONGOING, ABORT, "overflow", FENCED, None),
    (S.ONGOING, COMMIT, "overflow", FENCED, None),
    (S.EMPTY, ABORT, "overflow", FENCED, None),
    (S.EMPTY, COMMIT, "overflow", FENCED, None),
    (S.COMPLETE_ABORT, ABORT, "overflow", OK, None),
    (S.COMPLETE_ABORT, COMMIT, "overflow", STATE, None),
    (S.COMPLETE_COMMIT, ABORT, "overflow", STATE, None),
    (S.COMPLETE_COMMIT, COMMIT, "overflow", OK, None),
]
CLAIMS = {"current": (7, 3), "retry": (7, 2), "older": (7, 1), "newer": (7, 4), "other": (8, 3), "overflow": (6, 32766)}


@pytest.mark.parametrize(("state", "commit", "who", "answer", "after"), END_TV2)
def test_end_with_an_epoch_per_transaction(state: S, commit: bool, who: str, answer: int, after: S | None) -> None:
    """I06: table 2.8, with every kind of identity. Success returns the identity to use from now on."""
    rig = Rig(driven=False)
    seeded = in_state(state)
    if who == "overflow":
        seeded = replace(seeded, producer_epoch=0, previous_producer_id=6)
    rig.seed(seeded)
    ticket = rig.end(CLAIMS[who], commit=commit)
    assert error(ticket) == answer
    if after is None:
        assert rig.state() == seeded
        if answer == OK:
            assert identity(ticket) == (seeded.producer_id, seeded.producer_epoch)
    else:
        assert identity(ticket) == (7, 4)
        assert rig.state().state is after
        assert (rig.state().producer_epoch, rig.state().last_producer_epoch) == (4, 3)


# §2.5, for an id in each state: expected identity, answer, identity given
STORED = {"last_producer_epoch": 2}
INIT = [
    (S.EMPTY, None, OK, (7, 4)),
    (S.COMPLETE_COMMIT, None, OK, (7, 4)),
    (S.COMPLETE_ABORT, None, OK, (7, 4)),
    (S.COMPLETE_COMMIT, (7, 3), OK, (7, 4)),
    (S.COMPLETE_COMMIT, (7, 2), OK, (7, 3)),  # a retry: the answer of the first attempt again
    (S.COMPLETE_COMMIT, (7, 1), FENCED, None),
    (S.COMPLETE_COMMIT, (7, 4), FENCED, None),
    (S.COMPLETE_COMMIT, (8, 3), FENCED, None),
    (S.EMPTY, (6, 32766), FENCED, None),  # 6 is not the previous id here
    (S.PREPARE_COMMIT, None, BUSY, None),
    (S.PREPARE_ABORT, None, BUSY, None),
    (S.PREPARE_ABORT, (8, 3), BUSY, None),  # 51 comes before the identity is looked at
    (S.PREPARE_COMMIT, (7, 1), BUSY, None),
    (S.ONGOING, None, BUSY, None),
    (S.ONGOING, (7, 3), BUSY, None),
    (S.ONGOING, (8, 3), FENCED, None),
]


@pytest.mark.parametrize(("state", "expected", "answer", "given"), INIT)
def test_init_producer_id(
    state: S, expected: tuple[int, int] | None, answer: int, given: tuple[int, int] | None
) -> None:
    """Rows 10 to 15 of §2.5."""
    rig = Rig(driven=False)
    rig.seed(in_state(state, **STORED))
    ticket = rig.init(expected=expected)
    assert error(ticket) == answer
    if given is not None:
        assert identity(ticket) == given
        assert rig.state().state is S.EMPTY
        assert rig.state().start_ms == -1
        assert rig.state().partitions == ()


def test_a_new_id_gets_a_fresh_producer_id() -> None:
    """Row 9, and the stored-epoch rule: an expected identity the coordinator knows nothing of is no offence. While
    there is no producer id to give, the client is to come again (KAFKA-14417)."""
    rig = Rig()
    assert identity(rig.init()) == (1000, 0)
    assert identity(rig.init("another", expected=(7, 3))) == (1001, 0)
    rig.ids.dry = True
    assert error(rig.init("third")) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert "third" not in rig.machine.transactions


def test_a_rotated_id_answers_the_retry_with_what_it_gave() -> None:
    """Rows 11, 13, 14 at exhaustion: (7, 32766) becomes (new, 0); the retry with the old identity gets the same."""
    rig = Rig()
    rig.seed(in_state(S.COMPLETE_COMMIT, producer_epoch=32766))
    given = identity(rig.init(expected=(7, 32766)))
    assert given == (1000, 0)
    assert identity(rig.init(expected=(7, 32766))) == given
    assert error(rig.init(expected=(7, 32765))) == FENCED


def test_a_retried_bump_to_the_last_epoch_succeeds() -> None:
    """§8.4: the answer to 32765 → 32766 was lost. Kafka fails inside; the epoch that was given is given again."""
    rig = Rig()
    rig.seed(in_state(S.EMPTY, producer_epoch=32765))
    assert identity(rig.init(expected=(7, 32765))) == (7, 32766)
    assert identity(rig.init(expected=(7, 32765))) == (7, 32766)
    assert error(rig.init(expected=(7, 32764))) == FENCED


# §2.6: state, identity, answer to an add, answer to a verification of a partition that is in, and of one that is not
ADD = [
    (S.EMPTY, (7, 3), OK, 120, 120),
    (S.COMPLETE_COMMIT, (7, 3), OK, 120, 120),
    (S.COMPLETE_ABORT, (7, 3), OK, 120, 120),
    (S.ONGOING, (7, 3), OK, OK, 120),
    (S.PREPARE_COMMIT, (7, 3), BUSY, BUSY, BUSY),
    (S.PREPARE_ABORT, (7, 3), BUSY, BUSY, BUSY),
    # An add in a PREPARE state gets 51 before its identity is looked at; a verification is not (KAFKA-18660).
    (S.PREPARE_ABORT, (8, 3), BUSY, MAPPING, MAPPING),
    (S.PREPARE_COMMIT, (7, 4), BUSY, FENCED, FENCED),
    (S.ONGOING, (8, 3), MAPPING, MAPPING, MAPPING),
    (S.ONGOING, (7, 2), FENCED, FENCED, FENCED),
    (S.ONGOING, (7, 4), FENCED, FENCED, FENCED),
    (S.EMPTY, (8, 3), MAPPING, MAPPING, MAPPING),
    (S.COMPLETE_COMMIT, (7, 2), FENCED, FENCED, FENCED),
]


@pytest.mark.parametrize(("state", "claimed", "added", "inside", "outside"), ADD)
def test_add_and_verify(state: S, claimed: tuple[int, int], added: int, inside: int, outside: int) -> None:
    """I20: the rows of §2.6, in their order."""
    rig = Rig(driven=False)
    rig.seed(in_state(state))
    assert rig.verify(claimed, T0, T1) == {("t", TOPIC_ID, 0): inside, ("t", TOPIC_ID, 1): outside}
    before = rig.state()
    assert error(rig.add(claimed, T1)) == added
    if added == OK:
        assert rig.state().state is S.ONGOING
        started = before.start_ms if state is S.ONGOING else rig.time.now_ms()
        assert rig.state().start_ms == started
    else:
        assert rig.state() == before


def test_unknown_ids() -> None:
    """49 on everything but InitProducerId."""
    rig = Rig()
    assert error(rig.add((7, 3))) == MAPPING
    assert rig.verify((7, 3)) == {("t", TOPIC_ID, 0): MAPPING}
    assert error(rig.end((7, 3), commit=True)) == MAPPING
    assert error(rig.end((7, 3), commit=False, version=0)) == MAPPING


def test_adding_what_is_in_already_writes_nothing() -> None:
    """Row 8 of §2.6, and the union of row 9."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine, T0)
    written = rig.log.end_offset
    assert error(rig.add(mine, T0)) == OK
    assert rig.log.end_offset == written
    rig.add(mine, T1)
    assert rig.state().partitions == (TopicPartitions("t", TOPIC_ID, (0, 1)),)


def test_a_topic_made_again_is_another_topic() -> None:
    """I17: the same name under another id is not in the transaction."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine, T0)
    reborn = TopicPartitions("t", b"\xff" * 16, (0,))
    assert rig.verify(mine, reborn) == {("t", b"\xff" * 16, 0): 120}
    rig.add(mine, reborn)
    assert rig.state().partitions == (T0, reborn)
