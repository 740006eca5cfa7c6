"""Records on the disk are never found under a topic that is not theirs: `partition.metadata` comes with them."""

from random import Random
from threading import Thread, get_ident

import pytest

from broker.partitions.partition_store import FolderStore
from storage.checkpoints import read_partition_metadata
from storage.log import LogConfig
from storage.recovery import Recovery
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

TOPIC_ID = b"0123456789abcdef"


def store(files: SimulatedFiles, *, clean: bool = False) -> FolderStore:
    found = Recovery(clean=clean)
    return FolderStore(files, now_ms=lambda: 1_000, recovery=lambda topic, index: found, delete_delay_ms=lambda: 0)


@pytest.mark.parametrize("ended", ["not", "killed", "closed"])
def test_a_power_cut_leaves_records_with_the_id_of_their_topic(ended: str) -> None:
    """`ended`: after the log was made, and once more with a start, before its first flush."""
    files = SimulatedFiles()
    log = store(files).open("t", TOPIC_ID, 0, LogConfig())
    if ended != "not":
        if ended == "closed":
            log.close()
        files = files.kill()
        log = store(files, clean=ended == "closed").open("t", TOPIC_ID, 0, LogConfig())
    log.append(batch(), leader_epoch=1)
    assert log.flush_now() == 1
    for seed in range(20):
        left = files.crash(Random(seed))
        assert read_partition_metadata(left, "t-0") == TOPIC_ID


@pytest.mark.parametrize("left", [b"", b"version: 0\ntopic_id: MDEy", None])
def test_the_id_of_a_log_that_was_cut_to_nothing_is_on_the_disk_again(left: bytes | None) -> None:
    """A power cut came before the first flush: it left torn records, and the file torn or not at all."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    files.write_whole(f"t-0/{0:020d}.log", b"torn")
    if left is not None:
        files.write_whole("t-0/partition.metadata", left)
    log = store(files).open("t", TOPIC_ID, 0, LogConfig())
    log.append(batch(), leader_epoch=1)
    assert log.flush_now() == 1
    for seed in range(20):
        assert read_partition_metadata(files.crash(Random(seed)), "t-0") == TOPIC_ID


def test_a_flush_opens_no_file_on_its_thread() -> None:
    """Open files belong to the loop's."""
    files = SimulatedFiles()
    log = store(files).open("t", TOPIC_ID, 0, LogConfig())
    log.append(batch(), leader_epoch=1)
    opened: list[tuple[str, int]] = []
    files.looker = lambda operation, path: opened.append((path, get_ident())) if operation == "open" else None
    flush = log.begin_flush()
    assert flush is not None
    thread = Thread(target=flush.run)
    thread.start()
    thread.join()
    log.finish_flush(flush)
    assert opened == [("t-0/partition.metadata", get_ident())]
    assert "t-0/partition.metadata" in files.syncs
