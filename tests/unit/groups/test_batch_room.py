"""What goes into one batch of a coordinator's log."""

from coordinator.batch_room import RECORD_OVERHEAD, BatchRoom, fits_alone
from coordinator.machine import Record
from protocol.records.batch import HEADER_SIZE
from protocol.records.record import NewRecord, build_batch

RECORD = Record(key=b"k" * 10, value=b"v" * 90)
SIZE = RECORD_OVERHEAD + 100


def test_there_is_room_to_the_byte() -> None:
    exact, less = BatchRoom(HEADER_SIZE + 2 * SIZE), BatchRoom(HEADER_SIZE + 2 * SIZE - 1)
    assert exact.add(RECORD) and not exact.is_full
    assert exact.add(RECORD) and exact.is_full
    assert not exact.add(Record(key=b"", value=None))
    assert less.add(RECORD) and not less.add(RECORD) and not less.is_full
    assert (len(exact.records), len(less.records)) == (2, 1)


def test_all_or_none_but_the_first_are_always_taken() -> None:
    room = BatchRoom(HEADER_SIZE + SIZE)
    assert room.add(RECORD, RECORD, RECORD) and room.is_full
    other = BatchRoom(HEADER_SIZE + 2 * SIZE)
    assert other.add(RECORD) and not other.add(RECORD, RECORD)
    assert other.records == [RECORD]


def test_a_batch_is_never_larger_than_what_was_counted() -> None:
    for count in (1, 7, 300):
        batch = build_batch(
            [NewRecord(key=RECORD.key, value=RECORD.value, timestamp_ms=index) for index in range(count)]
        )
        assert len(batch) <= HEADER_SIZE + count * SIZE
    assert fits_alone(RECORD, HEADER_SIZE + SIZE) and not fits_alone(RECORD, HEADER_SIZE + SIZE - 1)
    assert fits_alone(RECORD, HEADER_SIZE + SIZE + 5, growth=5)
    assert not fits_alone(RECORD, HEADER_SIZE + SIZE + 5, growth=6)
