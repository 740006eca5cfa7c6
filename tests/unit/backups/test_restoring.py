"""What damage is noticed, what is restored, and into what."""

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.backups.manifest import Manifest
from broker.backups.pieces import Damaged, Piece, PieceReader
from broker.backups.pruning import check, prune
from broker.backups.restoring import RESTORING, restore
from broker.backups.target import BACKUPS, Refused, Target, Whose
from storage.checkpoints import COPY_FILE
from tests.unit.backups.place import WHOSE, Place, killed_at, quiet


def piece_of(place: Place, manifest: Manifest, path: str) -> Path:
    return Path(place.target.root) / manifest.files[path].pieces[0].path


def flipped(path: Path, at: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [flipped, cut_short, Path.unlink])
@pytest.mark.parametrize("file", [f"{0:020d}.log", "0-epochs"])
def test_damage_is_named_and_not_restored(place: Place, damage: Callable[[Path], None], file: str) -> None:
    manifest = place.backup().manifest
    victim = piece_of(place, manifest, f"t-0/{file}")
    damage(victim)
    found = check(place.target, ["b1"], quiet).damaged
    assert found and all(victim.name in one for one in found)
    with pytest.raises(Damaged, match=victim.name):
        place.restored("b1")
    assert not (place.root / "again").exists() and not (place.root / f"again{RESTORING}").exists()
    if damage is not flipped:
        place.backup()
        assert place.restored("b2") == place.now(), "what is not there any more is copied again"
    last = place.backup(whole=True).manifest.head.id
    assert place.restored(last, "healed") == place.now()
    assert check(place.target, [last], quiet).damaged == []


def unreadable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk has lost what was there."""
    pread, read = os.pread, os.fdopen

    def refused(descriptor: int, size: int, position: int) -> bytes:
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            raise OSError(errno.EIO, "Input/output error")
        return pread(descriptor, size, position)

    def opened(descriptor: int, mode: str) -> Any:
        refused(descriptor, 0, 0)
        return read(descriptor, mode)

    monkeypatch.setattr(os, "pread", refused)
    monkeypatch.setattr("broker.backups.manifest.os.fdopen", opened)


def test_what_a_disk_cannot_read_is_damaged_like_what_is_wrong(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is looked at all the same, and `--whole` copies it again."""
    victim = piece_of(place, place.backup().manifest, f"t-0/{0:020d}.log")
    other = piece_of(place, place.backup().manifest, "t-0/0-epochs")
    cut_short(other)
    with monkeypatch.context() as patched:
        unreadable(victim, patched)
        found = check(place.target, ["b1"], quiet).damaged
        assert [f"{victim.name} cannot be read: Input/output error" in one for one in found].count(True) == 1
        assert any(other.name in one for one in found)
        with pytest.raises(Damaged, match="cannot be read"):
            place.restored("b1")
        last = place.backup(whole=True).manifest.head.id
    assert place.restored(last) == place.now()
    with monkeypatch.context() as patched:
        unreadable(Path(place.target.root) / BACKUPS / last, patched)
        assert any(f"{last} cannot be read" in one for one in check(place.target, place.target.ids(), quiet).damaged)
        assert place.backup().manifest.head.id in place.target.ids()


def test_what_may_not_be_read_is_no_damage(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.backup()

    def refused(descriptor: int, size: int, position: int) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "pread", refused)
    with pytest.raises(PermissionError):
        check(place.target, ["b1"], quiet)


@pytest.mark.parametrize("damage", [flipped, cut_short, lambda path: path.write_bytes(b"")])
def test_a_damaged_manifest_is_no_backup_and_nothing_is_pruned(place: Place, damage: Callable[[Path], None]) -> None:
    place.backup()
    place.backup()
    damage(Path(place.target.root) / BACKUPS / "b2")
    with pytest.raises(Damaged, match="b2 is damaged"):
        place.target.read("b2")
    assert check(place.target, ["b1", "b2"], quiet).damaged
    before = place.kept()
    with pytest.raises(Damaged):
        prune(place.target, [])
    assert [name for name in place.kept() if name != "readers"] == before
    place.backup()
    prune(place.target, ["b2"])
    assert place.restored("b1") == place.restored("b3", "latest") == place.now()


def test_paths_that_lead_out_of_the_folder_are_damage(place: Place) -> None:
    manifest = place.backup().manifest
    for path in ("../out", "/etc/x", "t-0//x", "t-0/../../x"):
        entry = manifest.files[f"t-0/{0:020d}.log"]
        crafted = Manifest(manifest.head, {path: type(entry)(path, *[getattr(entry, n) for n in FIELDS])})
        (Path(place.target.root) / BACKUPS / "b1").write_bytes(crafted.to_bytes())
        with pytest.raises(Damaged):
            place.target.read("b1")


FIELDS: Sequence[str] = ("size", "mtime_ns", "dev", "ino", "final", "compacted", "pieces")


def test_restored_into_what_is_empty_or_not_there(place: Place) -> None:
    place.backup()
    manifest = place.target.read("b1")
    (place.root / "empty" / "lost+found").mkdir(parents=True)
    assert place.restored("b1", "empty") == place.now()
    assert not (place.root / "empty" / RESTORING).exists()
    for name in ("empty", "data", "kept"):
        with pytest.raises(Refused, match=r"not empty|folder of the backups"):
            restore(place.target, manifest, str(place.root / name), quiet)
    with pytest.raises(Refused, match="folder of the backups"):
        restore(place.target, manifest, str(place.root / "kept" / "inside"), quiet)
    (place.root / "file").write_bytes(b"")
    with pytest.raises(Refused, match="not empty"):
        restore(place.target, manifest, str(place.root / "file"), quiet)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_restore_that_is_killed_is_begun_again(place: Place, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    place.backup()
    manifest, step = place.target.read("b1"), 0
    monkeypatch.setattr("broker.backups.restoring.shutil.rmtree", lambda path, **_: None)  # it was killed
    while step < 40:
        folder = place.root / f"again{step}"
        if is_there:
            folder.mkdir()
        work = partial(restore, place.target, manifest, str(folder), quiet)
        if not killed_at(monkeypatch, step, work):
            break
        step += 1
        assert is_there or not folder.exists() or {one.name for one in folder.iterdir()} == {"t-0", "made", COPY_FILE}
    assert step > 3 and (folder / COPY_FILE).exists()
    assert {one.name: one.read_bytes() for one in (folder / "t-0").iterdir()} == place.now()


@pytest.mark.parametrize("is_there", [False, True])
def test_two_restores_do_not_write_into_one_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    manifest, folder = place.backup().manifest, place.root / "again"
    if is_there:
        folder.mkdir()
    left, read = [folder], PieceReader.read

    def meanwhile(reader: PieceReader, piece: Piece) -> bytes:
        if left:
            with pytest.raises(Refused, match="another restore is writing"):
                restore(place.target, manifest, str(left.pop()), quiet)
        return read(reader, piece)

    monkeypatch.setattr(PieceReader, "read", meanwhile)
    restore(place.target, manifest, str(folder), quiet)
    assert not left and {one.name: one.read_bytes() for one in (folder / "t-0").iterdir()} == place.now()


def test_one_writes_at_a_time_and_nothing_goes_while_it_is_read(place: Place) -> None:
    place.backup()
    other = Target(place.target.root)
    with other.writing(), pytest.raises(Refused, match="another backup"):
        place.backup()
    with other.reading(), place.target.reading():
        place.backup()
        with pytest.raises(Refused, match="is being read"):
            prune(place.target, ["b1"])
    with other.deleting(), pytest.raises(Refused, match="being deleted"), place.target.reading():
        pass


def test_another_brokers_folder_is_refused(place: Place) -> None:
    with pytest.raises(Refused, match="node 1 of the cluster cluster"):
        place.target.prepare(Whose("another", 1))
    with pytest.raises(Refused, match="no folder of backups"):
        Target(str(place.root / "data")).prepare(WHOSE)
    with pytest.raises(Refused, match=r"no backup b9 in .*; there is none"):
        place.target.read("b9")


def test_two_brokers_first_backups_at_once_do_not_share_a_folder(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    root, fsync = place.root / "new", os.fsync
    others = [Whose("another", 2)]

    def meanwhile(descriptor: int) -> None:
        if others:
            with pytest.raises(Refused, match="another backup"):
                Target(str(root)).prepare(others.pop())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    Target(str(root)).prepare(WHOSE)
    assert not others and Target(str(root)).whose() == WHOSE
    with pytest.raises(Refused, match="give each a folder of its own"):
        Target(str(root)).prepare(Whose("another", 2))


def test_one_that_was_killed_before_it_said_whose_the_folder_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    step = 0
    while killed_at(monkeypatch, step, lambda: Target(str(place.root / "new")).prepare(WHOSE)):
        step += 1
    assert step > 3 and Target(str(place.root / "new")).whose() == WHOSE


def test_only_the_owner_reads_it(place: Place) -> None:
    place.backup()
    place.restored("b1")
    for root in (place.target.root, place.root / "again"):
        found = [Path(root), *Path(root).rglob("*")]
        assert {oct(one.stat().st_mode & 0o777) for one in found} == {"0o700", "0o600"}
