"""A write-ahead log that is damaged, cut or gone: a start says so, and changes nothing."""

from collections.abc import Callable

import pytest

from storage.checkpoints import UnreadableDataFolder
from storage.data_folder import DataFolder, read_format
from storage.write_ahead.commits import BLOCK, HALVES_AT
from storage.write_ahead.file import LARGE_BYTES
from storage.write_ahead.replay import AHEAD_FILE, replay, to_replay
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.write_ahead.rig import Rig, contents

FILE = "a-0/0.log"


def with_three_commits(rig: Rig) -> SimulatedFiles:
    """What a kill leaves behind them."""
    file = rig.open("0")
    for _ in range(3):
        file.append([b"data"])
        file.commit()
    return rig.disk.kill()


@pytest.mark.parametrize("left", [HALVES_AT + 2 * BLOCK, HALVES_AT + BLOCK + 30, HALVES_AT])
def test_a_log_that_was_cut_is_damaged(left: int) -> None:
    """Else its last commits would pass for ones that were torn."""
    disk = with_three_commits(Rig())
    del disk.inode(AHEAD_FILE).content[left:]
    with pytest.raises(UnreadableDataFolder, match=f"it has {left} bytes"):
        replay(disk)


@pytest.mark.parametrize("which", ["a commit in the middle", "both copies of where to begin"])
def test_damage_is_said_and_nothing_is_changed(which: str) -> None:
    disk = with_three_commits(Rig())
    for at in (HALVES_AT + 2 * BLOCK + 30,) if which == "a commit in the middle" else (20, BLOCK + 20):
        disk.inode(AHEAD_FILE).content[at] ^= 1
    before = contents(disk)
    with pytest.raises(UnreadableDataFolder, match="is damaged"):
        replay(disk, expected=True)
    assert contents(disk) == before and disk.exists(AHEAD_FILE)


def test_the_last_commit_that_is_torn_was_never_acknowledged() -> None:
    disk = with_three_commits(Rig())
    disk.inode(AHEAD_FILE).content[HALVES_AT + 3 * BLOCK + 30] ^= 1
    assert replay(disk) == 1


def test_a_file_that_ends_before_what_it_should_get_is_damage() -> None:
    rig = Rig()
    file = rig.open("0")
    file.append([bytes(LARGE_BYTES)])
    file.commit()
    file.append([b"data"])
    file.commit()
    disk = rig.disk.kill()
    del disk.inode(FILE).content[100:]
    with pytest.raises(UnreadableDataFolder, match="ends at byte 100"):
        replay(disk)


def killed() -> SimulatedFiles:
    """What a broker leaves that had a write-ahead log, as its data folder says, and committed three appends."""
    rig = Rig(ready=False)
    folder = DataFolder(rig.disk, boot_id="boot")
    rig.log.mark = folder.mark_write_ahead
    rig.log.prepare()
    return with_three_commits(rig)


def gone(disk: SimulatedFiles) -> None:
    disk.delete(AHEAD_FILE)


def zeros(disk: SimulatedFiles) -> None:
    _zeros_from(disk, 0)


def commits_are_zeros(disk: SimulatedFiles) -> None:
    _zeros_from(disk, HALVES_AT)


def _zeros_from(disk: SimulatedFiles, position: int) -> None:
    content = disk.inode(AHEAD_FILE).content
    content[position:] = bytes(len(content) - position)


@pytest.mark.parametrize("lose", [gone, zeros, commits_are_zeros])
def test_one_that_has_lost_its_commits_is_missed(lose: Callable[[SimulatedFiles], None]) -> None:
    disk = killed()
    lose(disk)
    before = contents(disk)
    for _ in range(2):
        with pytest.raises(UnreadableDataFolder, match=f"{AHEAD_FILE} is damaged"):
            DataFolder(disk, boot_id="boot")
    assert contents(disk) == before


@pytest.mark.parametrize("lose", [gone, zeros, commits_are_zeros])
def test_an_operator_goes_on_without_it(lose: Callable[[SimulatedFiles], None]) -> None:
    disk = killed()
    lose(disk)
    had_one = disk.exists(AHEAD_FILE)
    assert DataFolder(disk, boot_id="boot", to_repair=[AHEAD_FILE]).replayed == 0
    assert disk.exists(f"{AHEAD_FILE}.damaged") == had_one and not disk.exists(AHEAD_FILE)
    assert not read_format(disk).write_ahead and DataFolder(disk, boot_id="boot").replayed == 0


def test_one_that_is_whole_is_replayed_whatever_an_operator_says() -> None:
    assert DataFolder(killed(), boot_id="boot", to_repair=[AHEAD_FILE]).replayed == 1


def test_one_that_is_whole_is_replayed_once_and_not_missed_afterwards() -> None:
    disk = killed()
    assert read_format(disk).write_ahead and list(to_replay(disk, expected=True)) == [FILE]
    assert DataFolder(disk, boot_id="boot").replayed == 1
    assert not read_format(disk).write_ahead and not disk.exists(AHEAD_FILE)
    folder = DataFolder(disk, boot_id="another")
    folder.recovered()
    assert folder.replayed == 0 and not read_format(disk).write_ahead


def test_that_all_logs_were_opened_is_written_down_beside_that_there_is_one() -> None:
    disk = killed()
    folder = DataFolder(disk, boot_id="another")
    folder.mark_write_ahead(True)
    folder.recovered()
    assert read_format(disk).write_ahead


def test_a_folder_of_a_later_version_is_left_as_it_is() -> None:
    disk = killed()
    disk.write_whole("tallystick.format", b'{"version": 99, "boot_id": "boot", "write_ahead": true}')
    before = contents(disk)
    with pytest.raises(UnreadableDataFolder, match="format 99"):
        DataFolder(disk, boot_id="boot")
    assert contents(disk) == before and disk.exists(AHEAD_FILE)


def test_a_start_that_is_killed_between_its_steps_finds_the_log_or_needs_none() -> None:
    for operations in range(40):
        disk = killed()
        left = operations

        def die(operation: str, path: str) -> OSError | None:
            nonlocal left
            left -= 1
            return OSError(5, "killed") if left < 0 else None

        disk.fault = die
        try:
            DataFolder(disk, boot_id="boot")
        except (OSError, UnreadableDataFolder):
            disk = disk.kill()
            DataFolder(disk, boot_id="boot")
        disk.fault = None
        assert contents(disk)[FILE] == b"data" * 3 and not disk.exists(AHEAD_FILE)
