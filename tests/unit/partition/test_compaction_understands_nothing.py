"""Compaction goes by the bytes of keys: what no coordinator understands stays, for a later version that does."""

import pytest

from coordinator.groups.log_entries import group_key, offset_key
from coordinator.transactions.states import key_bytes
from protocol.records.record import NewRecord, build_batch, records_of
from storage.log import LogConfig
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import KILLED, NOW_MS, Rig, on_disk

CONFIG = LogConfig(
    segment_bytes=500,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    cleanup_delete=False,
    cleanup_compact=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
)
FILLING = offset_key("filling", "t", 0)


def compact(rig: Rig) -> None:
    for number in range(40):
        rig.produce(build_batch([NewRecord(b"%d" % number * 20, FILLING, NOW_MS)]))
    rig.flush()
    rig.now_ms += 10_000
    planned = finish(rig.partition.compaction_due(rig.now_ms))
    assert planned is not None and rig.partition.compactor is not None
    for work in rig.partition.compactor.run(planned, rig.now_ms):
        if work is not None:
            work()


def values_of(rig: Rig, key: bytes) -> list[bytes | None]:
    found = rig.log.read(rig.log.start_offset, 1 << 20, end_offset=rig.log.end_offset)
    return [record.value for data in found for record in records_of(data) if record.key == key]


@pytest.mark.parametrize(
    "key",
    [b"\x00\x63whatever", b"\x00\x03\x00\x01g", b"\x00\x01\x00\x20x", b"", group_key("g"), key_bytes("tx")],
    ids=["unknown type", "newer type", "cut key", "no key", "group", "transactional id"],
)
def test_what_cannot_be_read_stays(key: bytes) -> None:
    """The last one of its key, over passes and restarts: an earlier one that could be read does not come back."""
    files = SimulatedFiles()
    rig = on_disk(files, config=CONFIG, recovery=KILLED)
    for value in (b"\x00\x00earlier", b"\x00\x63future"):
        rig.produce(build_batch([NewRecord(value, key, NOW_MS)]))
    for _ in range(3):
        compact(rig)
        assert values_of(rig, key) == [b"\x00\x63future"]
        assert len(values_of(rig, FILLING)) < 40
        rig = on_disk(files := files.kill(), config=CONFIG, recovery=KILLED)
