"""Errands that are under way: of a partition the answer counts that it was asked for with last."""

from coordinator.groups.share.answers import Errand
from coordinator.groups.share.under_way import UnderWay

T, U = bytes(15) + b"t", bytes(15) + b"u"


def errand(epoch: int, group_id: str = "g", **partitions: set[int]) -> Errand:
    ids = {"t": T, "u": U}
    return Errand(group_id, epoch, {ids[name]: frozenset(of) for name, of in partitions.items()})


def test_what_was_asked_for_again_is_answered_by_who_was_asked_last() -> None:
    """Whoever was asked before may have been slow: what it says is of a partition that is begun anew with."""
    under_way = UnderWay()
    first, second = errand(1, t={0, 1}, u={0}), errand(2, t={1, 2})
    under_way.begin(first)
    under_way.begin(second)
    assert under_way.end(first) == {T: {0}, U: {0}}
    assert under_way.end(second) == {T: {1, 2}}
    assert under_way.end(second) is None


def test_who_is_answered_in_the_other_order_counts_as_much() -> None:
    under_way = UnderWay()
    first, second = errand(1, t={0, 1}), errand(2, t={1})
    under_way.begin(first)
    under_way.begin(second)
    assert under_way.end(second) == {T: {1}}
    assert under_way.end(first) == {T: {0, 1}}, "the later one is known no more"


def test_an_errand_of_which_nothing_is_left_is_not_known() -> None:
    under_way = UnderWay()
    first, second, other = errand(1, t={0}), errand(2, t={0, 1}), errand(1, "h", t={0})
    for one in (first, second, other):
        under_way.begin(one)
    assert under_way.groups() == {"g", "h"} and under_way.groups() == set()
    assert under_way.end(first) is None
    assert under_way.end(other) == {T: {0}}
    under_way.forget("g")
    assert under_way.end(second) is None
