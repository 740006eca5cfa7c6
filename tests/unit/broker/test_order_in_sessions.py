"""The order in which a fetch session looks at its partitions: who had records goes behind, whoever is due."""

import random

import pytest

from broker.api.fetching import fetch_session
from broker.api.fetching.fetch_session import PartitionKey, Session, Wanted
from protocol.messages.fetch import FetchPartition

MANY = 64


def _wanted(index: int) -> Wanted:
    return Wanted("t", bytes(16), FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1))


def _session(count: int) -> Session:
    named: dict[PartitionKey, Wanted] = {}
    for index in range(count):
        named["t", index] = _wanted(index)
        named["t", index].order = len(named)
    session = Session(7, named, connection_id=1, principal="", by_topic_id=False, now_ms=0)
    session.reads(0)
    return session


def _indexes(wanted: list[Wanted]) -> list[int]:
    return [one.index for one in wanted]


@pytest.mark.parametrize("seed", range(20))
def test_an_order_is_kept_whatever_is_due(seed: int) -> None:
    """Against a list, in which who had records is put to the end by hand."""
    draw = random.Random(seed)
    session, order = _session(MANY), list(range(MANY))
    due = set(order)
    assert _indexes(session.due()) == order
    for _ in range(400):
        index, known = draw.randrange(MANY), session.wanted.get(("t", draw.randrange(MANY)))
        match draw.randrange(5):
            case 0 if known is not None:
                session.had_records(known)
                order.remove(known.index)
                order.append(known.index)
            case 1 if known is not None and draw.random() < 0.3:
                session.forget(("t", known.index))
                order.remove(known.index)
                due.discard(known.index)
            case 2:
                session.change(("t", index), _wanted(index))
                due.add(index)
                if index not in order:
                    order.append(index)
            case 3 if known is not None:
                session.moved(known)
                due.add(known.index)
            case _ if known is not None:
                for one in draw.sample(list(session.wanted.values()), draw.randrange(len(session.wanted))):
                    session.rest(one, 0)
                    due.discard(one.index)
        assert _indexes(session.all()) == order
        assert _indexes(session.due()) == [one for one in order if one in due]
        assert session.due_count == len(due)


@pytest.mark.parametrize("due", [MANY, MANY // 2])
def test_many_that_are_due_are_not_sorted(due: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred thousand partitions, the most that a session may have, would be sorted in a turn of 200 ms."""
    session = _session(MANY)
    session.had_records(session.due()[0])
    for wanted in session.all()[due:]:
        session.rest(wanted, 0)
    monkeypatch.setattr(fetch_session, "_order", None)
    assert _indexes(session.due()) == [*range(1, MANY), 0][:due]
    assert _indexes(session.all()) == [*range(1, MANY), 0]


def test_a_few_that_are_due_cost_what_they_are() -> None:
    session = _session(MANY)
    few = session.due()[: MANY // fetch_session.FEW]
    for wanted in session.all():
        session.rest(wanted, 0)
    for wanted in reversed(few):
        session.moved(wanted)
    session.wanted = Unseen(session.wanted)
    assert session.due() == few


class Unseen(dict[PartitionKey, Wanted]):
    """Nobody goes through all of it."""

    def values(self) -> object:  # type: ignore[override]
        raise AssertionError("all were passed over")
