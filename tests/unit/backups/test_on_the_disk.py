"""What a power cut would leave: nothing has its name before all that it needs is on the disk, and nothing is deleted
before what needed it is gone.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.backups.pieces import BEING_WRITTEN, PACKS, PIECES
from broker.backups.pruning import prune
from broker.backups.restoring import RESTORING, restore
from broker.backups.target import BACKUPS, FORMAT, Target
from storage.checkpoints import FORMAT_FILE
from tests.unit.backups.place import WHOSE, Place, quiet


class Disk:
    """Knows which contents and which names are on the disk, as far as they were changed since it looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: Callable[[str, Path], None]) -> None:
        """`before` is called before a name is given or taken away."""
        self.unsynced: set[Path] = set()
        """Files with contents, and folders with names, that may be lost."""
        real: dict[str, Callable[..., Any]] = {
            name: getattr(os, name) for name in ("write", "rename", "unlink", "fsync", "sync")
        }

        def path_of(descriptor: int) -> Path:
            return Path(os.readlink(f"/proc/self/fd/{descriptor}"))

        def write(descriptor: int, data: Any) -> int:
            self.unsynced |= {path_of(descriptor), path_of(descriptor).parent}
            return int(real["write"](descriptor, data))

        def rename(source: str, target: str) -> None:
            before("rename", Path(target))
            real["rename"](source, target)
            moved = {one for one in self.unsynced if one == Path(source) or Path(source) in one.parents}
            self.unsynced -= moved
            self.unsynced |= {Path(target) / one.relative_to(source) for one in moved}
            self.unsynced |= {Path(source).parent, Path(target).parent}

        def unlink(path: str, **_: Any) -> None:
            before("unlink", Path(path))
            real["unlink"](path)
            self.unsynced.add(Path(path).parent)

        def fsync(descriptor: int) -> None:
            self.unsynced.discard(path_of(descriptor))
            real["fsync"](descriptor)

        for one in (write, rename, unlink, fsync):
            monkeypatch.setattr(os, one.__name__, one)
        monkeypatch.setattr(os, "sync", self.unsynced.clear)

    def lost(self, *folders: str | Path) -> list[str]:
        """What may be lost of these."""
        return sorted(str(one) for one in self.unsynced if any(Path(top) in (one, *one.parents) for top in folders))


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it asks /proc what a descriptor is of")


def test_a_backup_has_its_name_when_all_of_it_is_on_the_disk(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(place.target.root)
    named: list[str] = []

    def before(what: str, path: Path) -> None:
        if what == "rename" and path.parent == root / BACKUPS:
            named.append(path.name)
            assert disk.lost(root / PACKS, root / PIECES, f"{path}{BEING_WRITTEN}") == []

    disk = Disk(monkeypatch, before)
    place.backup()
    assert disk.lost(root / BACKUPS) == [], "its name, too, when it is said to be there"
    place.put(f"{9:020d}.log", b"more" * 500, append=True)
    place.backup()
    assert named == ["b1", "b2"] and disk.lost(root) == []


def test_whose_a_folder_is_is_on_the_disk_before_anything_is_put_there(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, lambda what, path: None)
    Target(str(place.root / "new")).prepare(WHOSE)
    assert disk.lost(place.root / "new") == [] and (place.root / "new" / FORMAT).exists()


def test_pieces_are_deleted_when_nothing_on_the_disk_needs_them(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    root, swept = Path(place.target.root), []
    place.backup()
    place.put(f"{9:020d}.log", b"other", append=True)
    place.put("0-epochs", b"other")
    place.backup()

    def before(what: str, path: Path) -> None:
        if what == "unlink" and path.parent != root / BACKUPS and path.exists():
            swept.append(path)
            assert disk.lost(root / BACKUPS) == []

    disk = Disk(monkeypatch, before)
    prune(place.target, ["b1"])
    assert len(swept) == 0, "the second needs all of the first but one small piece of its pack"
    prune(place.target, ["b2"])
    assert len(swept) > 2


@pytest.mark.parametrize("is_there", [False, True])
def test_a_data_folder_is_complete_on_the_disk_before_it_is_one(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Where it has its name already, the file without which no broker starts comes last."""
    folder, complete = place.root / "again", []
    place.backup()
    manifest = place.target.read("b1")
    entry = replace(manifest.files.pop("made"), path=FORMAT_FILE)
    manifest.files = {FORMAT_FILE: entry, **manifest.files}
    if is_there:
        folder.mkdir()

    def lost() -> list[str]:
        return [one for one in disk.lost(place.root) if not one.endswith(f"/{RESTORING}")]

    def before(what: str, path: Path) -> None:
        if path == (folder / FORMAT_FILE if is_there else folder):
            complete.append(path)
            assert lost() == []
            if is_there:
                assert {one.name for one in (folder / "t-0").iterdir()} == set(place.now())

    disk = Disk(monkeypatch, before)
    restore(place.target, manifest, str(folder), quiet)
    assert len(complete) == 1 and lost() == []
    for path, one in manifest.files.items():
        assert (folder / path).stat().st_mtime_ns == one.mtime_ns, "retention goes by it where there are no timestamps"
