"""What holds for every batch of records."""

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.primitives import append_uvarint, append_varlong, read_uvarint, read_varlong
from protocol.records.batch import HEADER_SIZE, CorruptRecords, check_crc, headers_in, read_header
from protocol.records.record import NewRecord, build_batch, records_of
from tests.harness.refilling import refill_batch
from tests.property.message_strategies import new_records


@settings(max_examples=200, deadline=None, derandomize=True)
@given(new_records(), st.integers(0, 4), st.integers(0, 1 << 40))
def test_records_come_out_of_a_batch_as_they_went_in(records: list[NewRecord], codec: int, base: int) -> None:
    """Any codec, any nulls, offsets counted from the base offset (I47)."""
    batch = build_batch(records, base_offset=base, compression=codec)
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.size, header.next_offset) == (len(batch), base + len(records))
    read = list(records_of(batch))
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in read] == [
        (r.key, r.value, r.timestamp_ms, r.headers) for r in records
    ]
    assert [r.offset for r in read] == list(range(base, base + len(records)))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(new_records(), st.integers(0, 4), st.data())
def test_a_damaged_body_is_corrupt_or_still_records(records: list[NewRecord], codec: int, data: st.DataObject) -> None:
    """Nothing but `CorruptRecords` comes out of bytes that the checksum would have caught."""
    batch = bytearray(build_batch(records, compression=codec))
    at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    try:
        read = list(records_of(batch, limit=1 << 20))
    except CorruptRecords:
        return
    assert len(read) == len(records)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(new_records(), st.integers(0, 4), st.sets(st.integers(0, 29)))
def test_a_batch_with_fewer_records_keeps_its_offsets(records: list[NewRecord], codec: int, keep: set[int]) -> None:
    """What compaction leaves still ends at the same offset and sequence."""
    batch = build_batch(records, base_offset=7, producer_id=1, producer_epoch=0, base_sequence=3, compression=codec)
    header = read_header(batch)
    kept = [record for record in records_of(batch) if record.offset - 7 in keep]
    refilled = refill_batch(header, kept)
    after = read_header(refilled)
    assert check_crc(refilled, 0, after)
    assert (after.next_offset, after.last_sequence) == (header.next_offset, header.last_sequence)
    assert list(records_of(refilled)) == kept


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(new_records(), max_size=4), st.integers(0, 200))
def test_batches_are_found_one_after_the_other(groups: list[list[NewRecord]], cut: int) -> None:
    """Whole batches only: the one that is cut off at the end is not among them."""
    batches = [build_batch(records) for records in groups]
    data = b"".join(batches)
    end = max(0, len(data) - cut)
    found = list(headers_in(data[:end]))
    starts = [sum(map(len, batches[:i])) for i in range(len(batches))]
    assert [position for position, _ in found] == [
        start for start, batch in zip(starts, batches, strict=True) if start + len(batch) <= end
    ]


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 0xFFFFFFFF), st.integers(-(1 << 63), (1 << 63) - 1))
def test_varints_survive(unsigned: int, signed: int) -> None:
    out = bytearray()
    append_uvarint(out, unsigned)
    middle = len(out)
    append_varlong(out, signed)
    assert read_uvarint(out, 0) == (unsigned, middle)
    assert read_varlong(out, middle) == (signed, len(out))
