"""Batches for the tests of storage: small, with distinct values."""

from protocol.records.record import NewRecord, build_batch


def batch(*timestamps_ms: int, value: bytes = b"x") -> bytes:
    """One batch with a record per timestamp."""
    return build_batch([NewRecord(value, timestamp_ms=timestamp_ms) for timestamp_ms in timestamps_ms or (1,)])


def batches_of(count: int, size: int = 1, timestamp_ms: int = 1) -> bytes:
    """Several batches of one record each, in one buffer."""
    return b"".join(batch(timestamp_ms + index, value=bytes([index % 251]) * size) for index in range(count))
