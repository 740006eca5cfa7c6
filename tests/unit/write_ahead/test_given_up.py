"""What a write-ahead log had of files that were cut, renamed, replaced or deleted does not come back."""

from threading import Thread

import pytest

from broker.partitions.partition_store import FolderStore
from storage.recovery import Recovery
from storage.write_ahead.replay import AHEAD_FILE
from tests.unit.write_ahead.rig import Rig, check_all, check_exactly

FILE = "a-0/0.log"


@pytest.mark.parametrize("how", ["truncate", "rename", "delete", "rename folder", "delete folder", "rename onto"])
def test_what_was_given_up_does_not_come_back(how: str) -> None:
    rig = Rig()
    file = rig.open("0")
    for piece in (b"old", b" and longer"):
        file.append([piece])
        file.commit()
    match how:
        case "truncate":
            file.truncate(0)
        case "rename":
            rig.files.rename(FILE, FILE + ".deleted")
        case "delete":
            rig.files.delete(FILE)
        case "rename folder":
            rig.files.rename("a-0", "a-0.1-delete")
            rig.disk.make_folder("a-0")
        case "delete folder":
            rig.files.delete_folder("a-0")
            rig.disk.make_folder("a-0")
        case "rename onto":
            rig.disk.write_whole(FILE + ".swap", b"new")
            rig.files.rename(FILE + ".swap", FILE)
    rig.disk.sync_folder("")
    rig.disk.sync_folder("a-0")
    if how != "rename onto":
        made = file if how == "truncate" else rig.open("0")
        made.append([b"new"])
        made.commit()
    rig.after_power_cuts(lambda found: check_exactly(found, {FILE: b"new"}))


def test_a_file_that_is_renamed_while_it_is_committed_is_not_replayed() -> None:
    rig = Rig()
    file = rig.open("0")
    file.append([b"o"])
    file.append([b"ld"])
    renaming = Thread(target=rig.files.rename, args=(FILE, FILE + ".deleted"))

    def rename_meanwhile(operation: str, path: str) -> None:
        if (operation, path) == ("write_at", AHEAD_FILE):
            rig.disk.fault = None
            renaming.start()
            renaming.join(0.2)  # it waits, so that this ends without it

    rig.disk.fault = rename_meanwhile
    file.commit()
    renaming.join()
    made = rig.open("0")
    rig.disk.sync_folder("a-0")
    made.append([b"n"])
    made.commit()
    rig.after_power_cuts(lambda found: check_exactly(found, {FILE: b"n"}))


def test_that_a_file_was_cut_is_on_the_disk_before_it_is() -> None:
    """The cut may survive a power cut that takes every later commit."""
    rig = Rig()
    file = rig.open("0")
    file.append([b"kept, "])
    file.append([b"cut"])
    file.commit()
    file.truncate(6)
    rig.disk.open(FILE).sync()
    rig.after_power_cuts(lambda found: check_exactly(found, {FILE: b"kept, "}))


def test_what_stays_when_a_file_is_cut_survives() -> None:
    rig = Rig()
    file = rig.open("0")
    file.append([b"kept, "])
    file.append([b"cut"])
    file.commit()
    file.truncate(6)
    rig.after_power_cuts(lambda found: check_all(found, {FILE: b"kept, "}))
    file.append([b"new"])
    file.commit()
    rig.after_power_cuts(lambda found: check_exactly(found, {FILE: b"kept, new"}))


def test_the_folders_of_a_topic_that_is_deleted_cost_one_commit() -> None:
    """Each on its own would have a topic of a thousand partitions wait for a thousand syncs of the log."""
    rig = Rig(half_blocks=64)
    for number in range(20):
        rig.disk.make_folder(f"t-{number}")
        rig.disk.sync_folder("")
        file = rig.open("0", f"t-{number}")
        file.append([b"old"])
        file.commit()
    rig.disk.syncs.clear()
    store = FolderStore(rig.files, now_ms=lambda: 0, recovery=lambda *_: Recovery(), delete_delay_ms=lambda: 0)
    store.remove("t", bytes(16), range(20), rig.files)
    assert rig.disk.syncs.count(AHEAD_FILE) == 1 and not any(rig.disk.exists(f"t-{number}") for number in range(20))


def test_what_is_settled_never_takes_more_than_a_commit_may() -> None:
    rig = Rig(half_blocks=4)
    names = [f"{'long' * 60}-{number}" for number in range(64)]
    for name in names:
        rig.disk.make_folder(name)
        file = rig.files.open(f"{name}/0.log", create=True)
        file.append([b"old"])
    rig.files.leaving(names)
    file = rig.open("0")
    file.append([b"new"])
    file.commit()
    rig.after_power_cuts(lambda found: check_all(found, {FILE: b"new"}), count=5)


def test_a_sync_that_fails_before_a_rename_is_final_and_said_first() -> None:
    """The kernel tells it once: who syncs the same file later would be told that all is well."""
    rig = Rig()
    file = rig.open("0")
    file.append([b"data"])
    file.commit()
    told: list[str] = []
    rig.log.on_failed = lambda: told.append("failed")
    rig.disk.fault = lambda operation, path: OSError(5, "bad") if (operation, path) == ("sync", FILE) else None
    with pytest.raises(OSError, match="bad"):
        rig.files.rename(FILE, FILE + ".deleted")
    assert told == ["failed"] and rig.disk.exists(FILE)
    rig.disk.fault = None
    with pytest.raises(OSError, match="bad"):
        rig.log.close()
    assert rig.disk.exists(AHEAD_FILE)
    rig.after_power_cuts(lambda found: check_all(found, {FILE: b"data"}))
