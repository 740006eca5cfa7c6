"""Deleting backups, and looking for damage in them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.backups.copying import OnProgress
from broker.backups.pieces import PACKS, PIECES, Damaged, Piece, PieceReader, sync_folder
from broker.backups.target import BACKUPS, Target


@dataclass(slots=True)
class Pruned:
    """What was deleted."""

    removed: list[str]
    freed_bytes: int = 0


def prune(target: Target, removed: Sequence[str]) -> Pruned:
    """Delete backups, and then what no other one needs. A kill in between leaves superfluous pieces, which the next
    prune deletes. Raises `Damaged` where it cannot be told what those need that stay: then nothing is deleted."""
    done = Pruned(list(removed))
    with target.deleting():
        staying = [target.read(one) for one in target.ids() if one not in removed]
        needed = {piece.path for one in staying for file in one.files.values() for piece in file.pieces}
        for backup_id in removed:
            os.unlink(f"{target.root}/{BACKUPS}/{backup_id}")
        sync_folder(f"{target.root}/{BACKUPS}")
        target.clean()
        for folder in (PACKS, PIECES):
            done.freed_bytes += _sweep(target.root, folder, needed)
    return done


def _sweep(root: str, folder: str, needed: set[str]) -> int:
    freed = 0
    for parent, _, names in os.walk(f"{root}/{folder}"):
        for name in names:
            path = f"{parent}/{name}"
            if os.path.relpath(path, root) not in needed:
                freed += os.stat(path).st_size
                os.unlink(path)
    return freed


@dataclass(slots=True)
class Checked:
    """What was looked at, and what is wrong."""

    backups: int = 0
    pieces: int = 0
    size_bytes: int = 0
    damaged: list[str] = field(default_factory=list[str])


def check(target: Target, ids: Sequence[str], on_progress: OnProgress) -> Checked:
    """Read every piece of these backups once, and compare it with its checksum. Raises `OSError`."""
    checked = Checked()
    users: dict[Piece, list[str]] = {}
    for backup_id in ids:
        try:
            manifest = target.read(backup_id)
        except Damaged as problem:
            checked.damaged.append(str(problem))
            continue
        checked.backups += 1
        for file in manifest.files.values():
            if sum(piece.size for piece in file.pieces) != file.size:
                checked.damaged.append(f"{backup_id}: {file.path} is {file.size} bytes long, and its pieces are not")
            for piece in file.pieces:
                users.setdefault(piece, []).append(f"{backup_id}: {file.path}")
    reader, total = PieceReader(target.root), sum(piece.size for piece in users)
    try:
        for piece in sorted(users, key=lambda one: (one.path, one.offset)):
            try:
                reader.read(piece)
            except Damaged as problem:
                checked.damaged.append(f"{problem} ({users[piece][0]})")
            checked.pieces += 1
            checked.size_bytes += piece.size
            on_progress(checked.size_bytes, total)
    finally:
        reader.close()
    return checked
