"""Records on the disk are never found under a topic that is not theirs: `partition.metadata` comes with them."""

from random import Random

import pytest

from broker.partitions.partition_store import FolderStore
from storage.checkpoints import read_partition_metadata
from storage.log import LogConfig
from storage.recovery import Recovery
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

TOPIC_ID = b"0123456789abcdef"


def store(files: SimulatedFiles) -> FolderStore:
    return FolderStore(
        files, now_ms=lambda: 1_000, recovery=lambda topic, index: Recovery(sync=True), delete_delay_ms=lambda: 0
    )


@pytest.mark.parametrize("killed", [False, True])
def test_a_power_cut_leaves_records_with_the_id_of_their_topic(killed: bool) -> None:
    """`killed`: after the log was made, and once more with a start, before its first flush."""
    files = SimulatedFiles()
    log = store(files).open("t", TOPIC_ID, 0, LogConfig())
    if killed:
        files = files.kill()
        log = store(files).open("t", TOPIC_ID, 0, LogConfig())
    log.append(batch(), leader_epoch=1)
    assert log.flush_now() == 1
    for seed in range(20):
        left = files.crash(Random(seed))
        assert read_partition_metadata(left, "t-0") == TOPIC_ID
