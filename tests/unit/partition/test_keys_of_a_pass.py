"""What a pass remembers of keys: it grows, and is freed, a little at a time."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from protocol.records.record import NewRecord, build_batch
from storage.cleaner.key_map import KeyMap
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import NOW_MS
from tests.unit.partition.test_compaction import opened
from tests.unit.partition.test_passes_of_compaction import ONE_SEGMENT, a_pass, in_segments

KEYS = 30_000
MOST_BYTES = 300 << 10
"""Of 3 MB that so many keys take; one dict alone takes 700 KB more when it grows for the last time."""


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """How many bytes are held."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_no_key_makes_all_others_move() -> None:
    keys, most = KeyMap(KEYS), 0
    with traced() as held:
        for number in range(KEYS):
            before = held()
            keys.put(b"%d" % number, number)
            most = max(most, held() - before)
    assert len(keys) == KEYS and keys.room == 0
    assert most < MOST_BYTES
    assert [keys.get(b"%d" % number) for number in (0, KEYS - 1, KEYS)] == [0, KEYS - 1, -1]


def test_a_pass_frees_its_keys_a_little_at_a_time() -> None:
    rig = opened(SimulatedFiles(), config=ONE_SEGMENT)
    batches = [
        build_batch([NewRecord(b"", b"%d" % key, NOW_MS) for key in range(first, first + 1_000)])
        for first in range(0, KEYS, 1_000)
    ]
    in_segments(rig, batches)
    freed = 0
    with traced() as held:
        before = 0
        for step in a_pass(rig, spent=lambda: True, max_keys=KEYS):
            if step is not None:
                step()
            freed, before = max(freed, before - held()), held()
        freed = max(freed, before - held())
    assert freed < MOST_BYTES
