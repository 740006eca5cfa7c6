"""Which batches of a window a range of offsets falls into: within it, across its ends, and beside it."""

import pytest

from broker.partitions.share.window import Window


@pytest.mark.parametrize("sizes", [(), (1,), (3,), (1, 1, 1), (2, 5, 1, 4)])
def test_batches_are_found_by_the_offsets_that_they_have(sizes: tuple[int, ...]) -> None:
    window = Window(10)
    for size in sizes:
        window.append_new(window.next_offset + size - 1)
    for first in range(7, window.next_offset + 3):
        for last in range(first, window.next_offset + 3):
            found = window.covering(first, last)
            assert found == [one for one in window.batches if one.first <= last and first <= one.last]
            positions = window.positions(first, last)
            assert [window.batches[position] for position in positions] == found
            assert 0 <= positions.start <= len(window.batches)
