"""A disk that is full ends a backup, or a restore, at any of its writes: nothing counts as whole that is not, and with
room again the next one goes on.
"""

import errno
import os
from collections.abc import Callable

import pytest

from broker.backups.pruning import check
from broker.backups.restoring import RESTORING
from tests.unit.backups.place import Place, quiet


def full_at(monkeypatch: pytest.MonkeyPatch, step: int, work: Callable[[], object]) -> bool:
    """Whether the work met a disk that is full from its n-th write, folder or name on."""
    left = [step]

    with monkeypatch.context() as patched:
        for name in ("write", "mkdir", "rename"):
            original = getattr(os, name)

            def taken(*arguments: object, original: Callable[..., object] = original, **named: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return original(*arguments, **named)

            patched.setattr(os, name, taken)
        try:
            work()
        except OSError as problem:
            assert problem.errno == errno.ENOSPC
            return True
    return False


def test_a_backup_is_there_whole_or_not_at_all(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    step = 0
    while full_at(monkeypatch, step, place.backup):
        assert place.target.ids() == []
        assert check(place.target, [], quiet).damaged == []
        step += 1
    assert step > 5
    (made,) = place.target.ids()
    assert place.restored(made) == place.now()


def test_the_backups_before_are_as_they_were(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.backup()
    before = place.now()
    place.put(f"{9:020d}.log", b"more" * 500, append=True)
    step = 0
    while full_at(monkeypatch, step, place.backup):
        assert place.target.ids() == ["b1"]
        step += 1
    assert step > 2
    assert place.restored("b1", "first") == before
    assert place.restored(place.target.ids()[-1], "last") == place.now()
    assert check(place.target, place.target.ids(), quiet).damaged == []


def test_a_data_folder_is_there_whole_or_not_at_all(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.backup()
    step = 0
    while full_at(monkeypatch, step, lambda: place.restored("b1")):
        assert not (place.root / "again").exists() and not (place.root / f"again{RESTORING}").exists()
        step += 1
    assert step > 2 and place.restored("b1", "another") == place.now()


def test_a_volume_stays_empty(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that was there, as one is that is mounted."""
    place.backup()
    folder = place.root / "again"
    folder.mkdir()
    step = 0
    while full_at(monkeypatch, step, lambda: place.restored("b1")):
        assert list(folder.iterdir()) == []
        step += 1
    assert step > 2 and place.restored("b1", "another") == place.now()
