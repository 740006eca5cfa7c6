"""A fixed range of seeds over a shared store, and defects of the way there that do not go unnoticed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from broker.partitions.partition import Partition
from broker.shared.reading.ahead import _Reader
from storage.shared.memory_store import StoreInMemory
from storage.shared.resident import Resident
from storage.shared.store import LogChange, StoreUnreachable, Upload
from tests.simulation.run import run_stored
from tests.simulation.simulation import run
from tests.simulation.stored import DistantStore, Line, draw_line, draw_stored

SEEDS = 100
AT_ONCE = 25
DEFECT_SEEDS = 60

Planted = AbstractContextManager[Any]


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_is_wrong_with(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        (result,) = run_stored([seed])
        assert result.violations == [], f"seed {seed}"


def _given_up_passes_for_made() -> Planted:
    async def settle(self: StoreInMemory, who: Any, object_id: int) -> frozenset[int]:
        return await true(self, who, object_id) or frozenset()

    true = StoreInMemory.settle
    return mock.patch.object(StoreInMemory, "settle", settle)


def _made_passes_for_given_up() -> Planted:
    async def settle(self: StoreInMemory, who: Any, object_id: int) -> None:
        await true(self, who, object_id)

    true = StoreInMemory.settle
    return mock.patch.object(StoreInMemory, "settle", settle)


def _visible_before_it_is_committed() -> Planted:
    return mock.patch.object(Partition, "_committed_end", lambda self: self.log.end_offset)


def _uncommitted_is_forgotten() -> Planted:
    def shrink(self: Resident, end_offset: int) -> None:
        self.window.drop_first(max(0, len(self.window) - 1))

    return mock.patch.object(Resident, "shrink", shrink)


def _bounds_without_what_is_beside() -> Planted:
    def change(self: StoreInMemory, object_id: int, one: LogChange) -> None:
        true(self, object_id, one if one.first_offset is None else replace(one, kept=None))

    true = StoreInMemory._change
    return mock.patch.object(StoreInMemory, "_change", change)


def _what_does_not_come_passes_for_brought() -> Planted:
    """The bytes that are found there later are not those that were to be."""

    async def upload(self: DistantStore, who: Any, upload_id: int, data: Any) -> Upload:
        try:
            return await true(self, who, upload_id, data)
        except StoreUnreachable:
            size_bytes = sum(map(len, data))
            self._model._uploads[upload_id] = bytes(size_bytes)
            return Upload(upload_id, size_bytes)

    true = DistantStore.upload
    return mock.patch.object(DistantStore, "upload", upload)


def _what_is_ahead_passes_for_what_is_wanted() -> Planted:
    def number_of(self: _Reader, offset: int) -> int | None:
        return 1 if len(self._ahead) > 1 and offset == self._ahead[0].begins else true(self, offset)

    true = _Reader._number_of
    return mock.patch.object(_Reader, "_number_of", number_of)


DEFECTS: dict[str, Callable[[], Planted]] = {
    "what was given up passes for made": _given_up_passes_for_made,
    "what was made passes for given up": _made_passes_for_given_up,
    "records are visible before they are committed": _visible_before_it_is_committed,
    "what waits for its commit is forgotten": _uncommitted_is_forgotten,
    "a start moves without what makes it possible": _bounds_without_what_is_beside,
    "what does not come passes for brought": _what_does_not_come_passes_for_brought,
    "what is ahead passes for what is wanted": _what_is_ahead_passes_for_what_is_wanted,
}
"""That a process commits after its end is for `test_several_nodes`: one that starts again has asked the store so much
before it serves that what its earlier life had under way has arrived by then."""

BAD_LINE = Line(0.003, late=0.3, late_s=1.0)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_noticed(name: str) -> None:
    with DEFECTS[name]():
        seeds = range(DEFECT_SEEDS)
        assert any(
            run(draw_stored(seed), line=line).violations for seed in seeds for line in (draw_line(seed), BAD_LINE)
        ), "nobody noticed"
