"""The small files: Kafka's formats to the byte, and what a start makes of them."""

from pathlib import Path
from random import Random

import pytest

from broker.disk.local_files import LocalFiles
from storage import data_folder
from storage.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    MetaProperties,
    UnreadableDataFolder,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    read_text,
    replace_unsynced,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)
from storage.data_folder import DataFolder
from tests.harness.loop import ProcessDied
from tests.harness.open_files import open_below
from tests.harness.simulated_files import SimulatedFiles

TOPIC_ID = bytes(range(16))


def put(files: SimulatedFiles, path: str, text: str) -> None:
    files.write_whole(path, text.encode())


def test_an_offset_checkpoint_is_written_as_kafka_writes_it() -> None:
    files = SimulatedFiles()
    write_offsets(files, RECOVERY_POINTS, {("b.topic-x", 1): 7, ("a", 0): 1 << 40})
    assert read_text(files, RECOVERY_POINTS) == "0\n2\na 0 1099511627776\nb.topic-x 1 7\n"
    assert read_offsets(files, RECOVERY_POINTS) == {("b.topic-x", 1): 7, ("a", 0): 1 << 40}


def test_no_power_cut_brings_back_the_mark_of_a_clean_shutdown() -> None:
    """The start that took it away died before that was on the disk; the next one finds none, and writes."""
    files = SimulatedFiles()
    DataFolder(files, boot_id="boot-1")
    write_clean_shutdown(files)

    def die(operation: str, path: str) -> None:
        if (operation, path) == ("sync_folder", ""):
            raise ProcessDied

    files.watcher = die
    with pytest.raises(ProcessDied):
        DataFolder(files, boot_id="boot-1")
    files = files.kill()
    assert not DataFolder(files, boot_id="boot-1").clean
    for seed in range(20):
        assert not DataFolder(files.crash(Random(seed)), boot_id="boot-2").clean


@pytest.mark.parametrize(
    "text", ["", "0\n", "0\n2\na 0 1\n", "1\n1\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "\x00" * 9]
)
def test_a_damaged_offset_checkpoint_says_nothing(text: str) -> None:
    """More is read again; nothing is believed that may be wrong."""
    files = SimulatedFiles()
    put(files, RECOVERY_POINTS, text)
    assert read_offsets(files, RECOVERY_POINTS) == {}
    assert read_offsets(files, LOG_START_OFFSETS) == {}


def test_meta_properties_round_trip_and_kafkas_own_are_understood() -> None:
    files = SimulatedFiles()
    assert read_meta_properties(files) is None
    meta = MetaProperties("4L6g3nShT-eMCtK--X86sw", 3, "e6hPaNk0QGqDAhDIz9WBqw")
    write_meta_properties(files, meta)
    assert read_meta_properties(files) == meta
    kafkas = "#\n#Sat Nov 21 14:50:47 UTC 2026\ncluster.id=abc\ndirectory.id=def\nnode.id=1\nversion=1\n"
    put(files, "meta.properties", kafkas)
    assert read_meta_properties(files) == MetaProperties("abc", 1, "def")
    for damaged in ("version=1\ncluster.id=a\n", "version=0\nbroker.id=1\n", "version=1\ncluster.id=a\nnode.id=x\n"):
        put(files, "meta.properties", damaged)
        with pytest.raises(UnreadableDataFolder):
            read_meta_properties(files)


def test_partition_metadata_carries_the_topic_id() -> None:
    files = SimulatedFiles()
    files.make_folder("t-0")
    assert read_partition_metadata(files, "t-0") is None
    write_partition_metadata(files, "t-0", TOPIC_ID)
    assert read_text(files, "t-0/partition.metadata") == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert read_partition_metadata(files, "t-0") == TOPIC_ID
    put(files, "t-0/partition.metadata", "version: 0\ntopic_id: AAEC")
    assert read_partition_metadata(files, "t-0") is None


def test_a_start_learns_how_the_last_run_ended() -> None:
    files = SimulatedFiles()
    first = DataFolder(files, boot_id="boot-1")
    assert (first.clean, first.same_boot) == (False, False)
    first.checkpoint({("t", 0): 40}, {("t", 0): 5})
    first.recovered()
    killed = DataFolder(files, boot_id="boot-1")
    assert (killed.clean, killed.same_boot) == (False, True)
    found = killed.recovery_of("t", 0)
    assert (found.recovery_point, found.log_start_offset, found.same_boot) == (40, 5, True)
    assert killed.recovery_of("u", 0).recovery_point == 0
    killed.recovered()
    killed.close_cleanly()
    clean = DataFolder(files, boot_id="boot-2")
    assert (clean.clean, clean.same_boot) == (True, False)
    assert DataFolder(files, boot_id="boot-2").clean is False
    assert DataFolder(files, boot_id="").same_boot is False


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_START_OFFSETS, "tallystick.trust", "tallystick.format"])
def test_a_start_that_cannot_read_a_checkpoint_leaves_the_mark_to_the_next(name: str) -> None:
    """All logs need not be checked because of it."""
    files = SimulatedFiles()
    first = DataFolder(files, boot_id="b")
    first.checkpoint({("t", 0): 40}, {("t", 0): 5})
    first.recovered()
    first.close_cleanly()
    files = files.kill()
    files.fault = lambda operation, path: OSError("bad sector") if (operation, path) == ("read", name) else None
    with pytest.raises(OSError, match="bad sector"):
        DataFolder(files, boot_id="b")
    found = DataFolder(files.kill(), boot_id="b").recovery_of("t", 0)
    assert (found.clean, found.recovery_point, found.log_start_offset) == (True, 40, 5)


def test_a_boot_counts_when_every_log_was_opened_in_it() -> None:
    """Killed, or stopped in order, while logs were still being opened after a power cut: those that were not come to
    their check at the next start, although the machine has not rebooted since."""
    files = SimulatedFiles()
    DataFolder(files, boot_id="boot-1").recovered()
    cut_short = DataFolder(files, boot_id="boot-2")
    assert not cut_short.same_boot
    cut_short.close_cleanly()
    again = DataFolder(files, boot_id="boot-2")
    assert (again.clean, again.same_boot) == (False, False)
    again.recovered()
    again.close_cleanly()
    assert DataFolder(files, boot_id="boot-2").clean
    still_clean = DataFolder(files, boot_id="boot-2")
    assert (still_clean.clean, still_clean.same_boot) == (False, True)


def test_a_clean_folder_stays_clean_with_unopened_logs() -> None:
    files = SimulatedFiles()
    first = DataFolder(files, boot_id="boot-1")
    first.recovered()
    first.close_cleanly()
    DataFolder(files, boot_id="boot-2").close_cleanly()
    assert DataFolder(files, boot_id="boot-2").clean


def test_after_a_failed_sync_the_page_cache_is_not_believed() -> None:
    """Until every log was read, checked and written again; a full disk does not keep the word from being said."""
    files = SimulatedFiles()
    first = DataFolder(files, boot_id="b")
    first.recovered()
    files.capacity_bytes = 0
    assert first.distrust()
    files.capacity_bytes = None
    first.close_cleanly()
    second = DataFolder(files.kill(), boot_id="b")
    assert (second.clean, second.same_boot, second.recovery_of("t", 0).distrusted) == (False, True, True)
    second = DataFolder(files, boot_id="b")
    second.close_cleanly()
    third = DataFolder(files, boot_id="b")
    assert third.distrusted and not third.clean
    third.recovered()
    assert not DataFolder(files, boot_id="b").recovery_of("t", 0).distrusted


def test_a_failed_sync_at_the_end_of_startup_is_remembered() -> None:
    """All logs were opened, and `recovered` is on its way, when one of them cannot be synced."""
    files = SimulatedFiles()
    first = DataFolder(files, boot_id="b")
    assert first.distrust()
    first.recovered()
    first.close_cleanly()
    second = DataFolder(files, boot_id="b")
    assert second.distrusted and not second.clean


def test_a_start_in_page_cache_mode_syncs_nothing_it_finds() -> None:
    assert not DataFolder(SimulatedFiles(), boot_id="b", page_cache=True).recovery_of("t", 0).sync
    assert DataFolder(SimulatedFiles(), boot_id="b").recovery_of("t", 0).sync


def test_each_checkpoint_is_written_where_it_changed() -> None:
    files = SimulatedFiles()
    folder = DataFolder(files, boot_id="b")
    for recovery_point, start_offset, written in (
        (40, 5, [RECOVERY_POINTS, LOG_START_OFFSETS]),
        (40, 5, []),
        (5, 5, [RECOVERY_POINTS]),
        (5, 6, [LOG_START_OFFSETS]),
        (6, 6, [RECOVERY_POINTS]),
        (6, 5, [LOG_START_OFFSETS]),
    ):
        files.syncs.clear()
        folder.checkpoint({("t", 0): recovery_point}, {("t", 0): start_offset})
        assert files.syncs == written
        found = DataFolder(files.kill(), boot_id="b").recovery_of("t", 0)
        assert (found.recovery_point, found.log_start_offset) == (recovery_point, start_offset)


def test_a_boot_that_could_not_be_written_down_is_tried_again() -> None:
    files = SimulatedFiles()
    DataFolder(files, boot_id="boot-1").recovered()
    put(files, RECOVERY_POINTS, "0\n0\n")
    files.make_folder("t-0")
    folder = DataFolder(files, boot_id="boot-2")
    files.fault = lambda operation, path: OSError("bad sector") if operation == "write_whole" else None
    with pytest.raises(OSError, match="bad sector"):
        folder.recovered()
    files.fault = None
    assert not DataFolder(files.kill(), boot_id="boot-2").same_boot
    folder.recovered()
    assert DataFolder(files.kill(), boot_id="boot-2").same_boot
    files.syncs.clear()
    folder.recovered()
    assert files.syncs == []


def test_a_forgotten_partition_begins_anew() -> None:
    files = SimulatedFiles()
    folder = DataFolder(files, boot_id="b")
    folder.checkpoint({("t", 0): 40}, {("t", 0): 40})
    folder.forget("t", 0)
    assert folder.recovery_of("t", 0).log_start_offset == 0
    folder.checkpoint({}, {})
    assert read_offsets(files, LOG_START_OFFSETS) == {}


def test_an_older_format_is_upgraded_and_a_newer_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = SimulatedFiles()
    DataFolder(files, boot_id="b")
    done: list[int] = []
    monkeypatch.setattr(data_folder, "FORMAT_VERSION", 3)
    monkeypatch.setattr(data_folder, "UPGRADES", {1: lambda _: done.append(1), 2: lambda _: done.append(2)})
    DataFolder(files, boot_id="b")
    DataFolder(files, boot_id="b")
    assert done == [1, 2]
    monkeypatch.setattr(data_folder, "FORMAT_VERSION", 2)
    with pytest.raises(UnreadableDataFolder, match="Use a newer version"):
        DataFolder(files, boot_id="b")
    put(files, "tallystick.format", "{")
    with pytest.raises(UnreadableDataFolder, match="damaged"):
        DataFolder(files, boot_id="b")


def test_a_data_folder_of_kafka_is_refused_untouched() -> None:
    files = SimulatedFiles()
    write_clean_shutdown(files)
    files.make_folder("__cluster_metadata-0")
    files.open("__cluster_metadata-0/00000000000000000000.log", create=True).append([b"of a quorum"])
    for _ in range(2):
        with pytest.raises(UnreadableDataFolder, match="Apache Kafka's own"):
            DataFolder(files, boot_id="b")
        assert files.list("") == [".kafka_cleanshutdown", "__cluster_metadata-0"]


def test_small_files_that_are_replaced_leave_no_descriptor_open(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    replace_unsynced(files, "small", b"1")
    before = open_below(tmp_path)
    kept = [replace_unsynced(files, "small", b"%d" % number) for number in range(20)]
    assert len(kept) == 20 and open_below(tmp_path) == before
    assert read_text(files, "small") == "19"
    files.close()
