"""Batches put together say of each offset what is furthest on, and no more than that."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from coordinator.share_state.batches import combined
from coordinator.share_state.kept import Kept, Write
from coordinator.share_state.port import StateBatch


@st.composite
def batch(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 30))
    last = first + draw(st.integers(0, 12))
    return StateBatch(first, last, draw(st.sampled_from((0, 2, 4))), draw(st.integers(0, 3)))


def by_offset(batches: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """The furthest (count, state) of each offset from `start` on."""
    found: dict[int, tuple[int, int]] = {}
    for one in batches:
        for offset in range(max(start, one.first_offset), one.last_offset + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (one.delivery_count, one.delivery_state))
    return found


@given(st.lists(batch(), max_size=8), st.integers(-1, 35))
def test_each_offset_is_in_its_furthest_state_and_in_one_batch(batches: list[StateBatch], start: int) -> None:
    made = combined(batches, start)
    assert by_offset(list(made), start) == by_offset(batches, start)
    assert all(one.first_offset <= one.last_offset for one in made)
    for one, other in pairwise(made):
        assert one.last_offset < other.first_offset
        touching = one.last_offset + 1 == other.first_offset
        alike = (one.delivery_state, one.delivery_count) == (other.delivery_state, other.delivery_count)
        assert not (touching and alike), "two batches where one will do"


def test_a_batch_that_ends_before_it_begins_says_nothing() -> None:
    assert combined([StateBatch(40, 30, 2, 1), StateBatch(35, 35, 0, 1)], 0) == (StateBatch(35, 35, 0, 1),)


def test_what_continues_the_batch_before_it_is_one_with_it() -> None:
    """However many there are before."""
    apart = [StateBatch(0, 0, 2, 1), StateBatch(3, 4, 0, 1)]
    assert combined([*apart, StateBatch(5, 6, 0, 1)], 0) == (apart[0], StateBatch(3, 6, 0, 1))
    assert combined([*apart, StateBatch(6, 6, 0, 1)], 0) == (*apart, StateBatch(6, 6, 0, 1))
    assert combined([*apart, StateBatch(5, 6, 0, 2)], 0) == (*apart, StateBatch(5, 6, 0, 2))
    assert combined([*apart, StateBatch(5, 6, 4, 1)], 0) == (*apart, StateBatch(5, 6, 4, 1))


def test_a_change_that_is_late_takes_nothing_back() -> None:
    """Its sender had given it up, and begun with the share partition once more."""
    done, open_ones = StateBatch(4, 4, 2, 1), StateBatch(1, 1, 2, 1)
    kept = Kept(0, 2, 2, 0, 0, (), 0, 0).after(Write(2, 4, 1, (done,)))
    late = kept.after(Write(2, 1, 1, (open_ones,)))
    assert (late.start_offset, late.batches) == (4, (done,))
