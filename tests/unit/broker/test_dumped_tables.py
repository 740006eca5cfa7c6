"""Small files as `kafka-dump-log` shows them."""

from pathlib import Path

from broker.offline.dumped_tables import producer_snapshot
from broker.offline.dumping import Dump
from storage.producers.producer_entry import ProducerEntry
from storage.producers.producer_snapshot import encode_snapshot


def test_a_producer_that_has_written_nothing_in_its_epoch_has_no_last_batch() -> None:
    snapshot = b"".join(encode_snapshot({7: ProducerEntry(epoch=2, last_timestamp_ms=5).pack()}))
    (row,) = producer_snapshot("", snapshot)
    assert list(row) == ["producerId", "producerEpoch", "coordinatorEpoch", "currentTxnFirstOffset", "lastTimestamp"]
    assert (row["producerId"], row["producerEpoch"], row["lastTimestamp"]) == (7, 2, 5)


def test_an_empty_index_is_said_to_be_empty(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.index"
    path.write_bytes(b"")
    for as_json, said in ((False, [f"Dumping {path}", f"{path} is empty."]), (True, [])):
        lines: list[str] = []
        Dump(lines.append, as_json, with_records=False).file(str(path))
        assert lines == said
