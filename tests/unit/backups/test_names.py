"""Backups are in the order in which they were made, whatever the clock does."""

from argparse import Namespace
from dataclasses import replace

from broker.backups.__main__ import _create_of, _free_id
from tests.unit.backups.place import Place

NOON_MS = 1_772_366_400_000


def made(place: Place, now_ms: int) -> str:
    found = _free_id(place.target, now_ms)
    (place.root / "kept/backups" / found).write_bytes(b"")
    return found


def test_many_in_one_second(place: Place) -> None:
    wanted = [made(place, NOON_MS) for _ in range(12)]
    assert wanted[0] == "20260301T120000Z" and wanted[-1] == "20260301T120000Z-12"
    assert place.target.ids() == wanted and place.target.latest() == wanted[-1]


def test_a_clock_that_went_back(place: Place) -> None:
    wanted = [made(place, now_ms) for now_ms in (NOON_MS, NOON_MS - 3_600_000, NOON_MS - 1_800_000, NOON_MS + 1_000)]
    assert wanted == ["20260301T120000Z", "20260301T120000Z-2", "20260301T120000Z-3", "20260301T120001Z"]
    assert place.target.ids() == wanted


def test_a_file_that_is_none_has_no_part_in_it(place: Place) -> None:
    (place.root / "kept/backups/notes-2026").write_bytes(b"")
    assert made(place, NOON_MS) == "20260301T120000Z"
    assert made(place, NOON_MS) == "20260301T120000Z-2"


def test_a_backup_is_called_by_its_moment_and_not_by_when_it_was_copied(place: Place) -> None:
    options = Namespace(target=place.target.root, whole=False, json=True)
    _create_of(options, replace(place.source(), taken_ms=NOON_MS), str(place.root / "data"))
    assert place.target.ids() == ["20260301T120000Z"]
    assert place.target.read("20260301T120000Z").head.taken_ms == NOON_MS
    _create_of(options, place.source(), str(place.root / "data"))
    assert place.target.read(place.target.latest()).head.taken_ms > NOON_MS, "of a stopped one it is now"
