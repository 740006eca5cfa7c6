"""A place with a backup's worth of files, cut into small pieces; a data folder with logs."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from broker.backups import copying, pieces
from tests.unit.backups.place import Place
from tests.unit.backups.world import World


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PACKED_BELOW", 100)
    monkeypatch.setattr(copying, "PIECE_BYTES", 1_000)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.put(f"{0:020d}.log", Random(1).randbytes(2_500))
    made.put(f"{9:020d}.log", Random(2).randbytes(2_400))
    made.put("leader-epoch-checkpoint", b"0\n1\n0 0\n")
    os.rename(tmp_path / "data/t-0/leader-epoch-checkpoint", tmp_path / "data/t-0/0-epochs")
    return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.fill()
    yield made
    for rig in made.rigs.values():
        rig.log.abandon()
    made.files.close()
