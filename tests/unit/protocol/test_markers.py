"""The marker that ends a transaction, byte for byte."""

from protocol.records.control import end_transaction_marker, read_end_transaction
from protocol.records.record import NewRecord, build_batch


def test_a_marker_equals_the_general_builders_record() -> None:
    for commit, key in ((True, b"\0\0\0\1"), (False, b"\0\0\0\0")):
        record = NewRecord(key=key, value=b"\0\0\0\0\x01\x02", timestamp_ms=1_700_000_000_123)
        general = build_batch(
            [record], base_offset=7, producer_id=42, producer_epoch=3, transactional=True, control=True, leader_epoch=5
        )
        made = end_transaction_marker(
            producer_id=42,
            producer_epoch=3,
            commit=commit,
            coordinator_epoch=0x0102,
            timestamp_ms=1_700_000_000_123,
            base_offset=7,
            leader_epoch=5,
        )
        assert made == general
        end = read_end_transaction(made)
        assert end is not None and (end.commit, end.coordinator_epoch) == (commit, 0x0102)
