"""Writes the data folder that is kept, and what is answered of it: `python -m tests.upgrade`.

It is written by the version that is here, and is to be written again when the format gets another number (then beside
the older ones, which stay) or when a version writes something new into it.
"""

import json
import sys
import tarfile
import tempfile
from pathlib import Path

from storage.data_folder import FORMAT_VERSION
from tests.harness.confluent import wait_until
from tests.scenarios.language import read, write
from tests.upgrade.place import FORMAT, KEPT, READ, READING, WRITING, WRITTEN, OnAFolder, unpack
from tests.upgrade.records import check_records, write_records

LARGEST_BYTES = 200_000
SNAPSHOT_AFTER_MS = 2 * 3_600_000
"""By default there is one each hour."""


def write_folder(folder: Path) -> Path:
    """The data folder of a broker after two orderly ends; transactions are under way in it."""
    place = OnAFolder(folder, WRITING)
    try:
        place.process.start()
        write_records(place.bootstrap)
        assert place.process.control is not None
        place.process.control.ask("advance", milliseconds=SNAPSHOT_AFTER_MS)
        wait_until(lambda: list(place.process.data.glob("*/*.checkpoint")), "a snapshot of the metadata")
        assert place.process.stop() == 0
        place.process.start()  # so that there are epochs of two lives
        _play(place, WRITTEN)
        assert place.process.stop() == 0
    finally:
        place.process.close()
    return place.process.data


def keep(data: Path) -> None:
    """Packed, with nothing in it of who packed it and when."""

    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if entry.name.endswith("/.lock"):
            return None
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    (data / "tallystick.format").write_text(json.dumps({"version": FORMAT, "boot_id": "of the writer"}) + "\n")
    with tarfile.open(KEPT, "w:xz", preset=9) as archive:
        archive.add(data, "data", filter=anonymous)
    assert KEPT.stat().st_size < LARGEST_BYTES, KEPT.stat().st_size


def look(folder: Path) -> None:
    """What the same version says of a copy."""
    unpack(folder)
    place = OnAFolder(folder, READING)
    try:
        place.process.start()
        check_records(place.bootstrap, place.guarded)
        _play(place, READ)
    finally:
        place.process.close()


def _play(place: OnAFolder, path: Path) -> None:
    """The answers are written into the file."""
    (scenario,) = read(path)
    path.write_text(write(path, [scenario], {scenario.title: place.play(scenario)}), encoding="utf-8")


def main() -> int:
    assert FORMAT == FORMAT_VERSION, "a new format has a new file beside the old ones"
    with tempfile.TemporaryDirectory() as scratch:
        keep(write_folder(Path(scratch, "written")))
        look(Path(scratch, "read"))
    print(f"{KEPT.name} has {KEPT.stat().st_size} bytes.")
    print(f"Read the diff of {WRITTEN.name} and {READ.name} before you commit.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
