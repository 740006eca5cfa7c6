"""Record batches that say of themselves what is not so: counts, deltas, checksums, codecs, times, control bits."""

from random import Random
from struct import pack_into

import cramjam

from protocol.records.batch import HEADER, BatchHeader, read_header, seal
from protocol.records.record import NewRecord, build_batch

INT64_MAX = (1 << 63) - 1
INT32_MAX = (1 << 31) - 1
NOW_MS = 1_700_000_000_000


def relabelled(batch: bytes, **fields: int) -> bytes:
    """The batch with other numbers in its header, and the right checksum over them."""
    header: BatchHeader = read_header(batch)._replace(**fields)
    changed = bytearray(HEADER.pack(*header) + batch[HEADER.size :])
    seal(changed)
    return bytes(changed)


def compressed_as(codec: int, body: bytes, *, count: int = 1) -> bytes:
    """A batch whose records are these bytes, whatever they are, under the flag of a codec."""
    header = read_header(build_batch([NewRecord(key=b"k", value=b"v", timestamp_ms=NOW_MS)]))
    changed = bytearray(
        HEADER.pack(*header._replace(attributes=codec, records_count=count, last_offset_delta=count - 1))
    )
    changed += body
    seal(changed)
    return bytes(changed)


def zeros_compressed(codec: int, size: int) -> bytes:
    """A batch of one record whose value is that many zeros: little on the wire, much when it is opened."""
    return bytes(build_batch([NewRecord(key=b"bomb", value=bytes(size), timestamp_ms=NOW_MS)], compression=codec))


def many_empty_records(codec: int, count: int) -> bytes:
    """An honest batch of the smallest records there are."""
    return bytes(build_batch([NewRecord(key=None, value=None, timestamp_ms=NOW_MS)] * count, compression=codec))


def lies() -> dict[str, bytes]:
    """Batches with a right checksum and one lie each, of two records but where the lie says otherwise."""
    two = [NewRecord(key=b"a", value=b"1", timestamp_ms=NOW_MS), NewRecord(key=b"b", value=b"2", timestamp_ms=NOW_MS)]
    honest = bytes(build_batch(two))
    return {
        "claims 2^31-1 records": relabelled(honest, records_count=INT32_MAX),
        "claims one record more": relabelled(honest, records_count=3),
        "claims one record less": relabelled(honest, records_count=1),
        "claims no record": relabelled(honest, records_count=0),
        "claims a negative count": relabelled(honest, records_count=-1),
        "last offset delta of 2^31-1": relabelled(honest, last_offset_delta=INT32_MAX),
        "delta and count of 2^31-1": relabelled(honest, last_offset_delta=INT32_MAX - 1, records_count=INT32_MAX),
        "a negative last offset delta": relabelled(honest, last_offset_delta=-1),
        "rubbish under gzip": compressed_as(1, b"this is not gzip"),
        "rubbish under snappy": compressed_as(2, b"\xff" * 40),
        "rubbish under lz4": compressed_as(3, b"\x04\x22\x4d\x18" + b"\x00" * 20),
        "rubbish under zstd": compressed_as(4, b"\x28\xb5\x2f\xfd" + b"\xff" * 20),
        "nothing under zstd": compressed_as(4, b""),
        "an unknown codec": relabelled(honest, attributes=7),
        "records of another batch under zstd": compressed_as(4, bytes(cramjam.zstd.compress(b"\x00" * 100))),
        "unused attribute bits": relabelled(honest, attributes=0x7F80),
        "times at the end of int64": relabelled(honest, base_timestamp=INT64_MAX, max_timestamp=INT64_MAX),
        "times at the beginning of int64": relabelled(
            honest, base_timestamp=-INT64_MAX - 1, max_timestamp=-INT64_MAX - 1
        ),
        "a control batch": relabelled(honest, attributes=0x20),
        "a delete horizon": relabelled(honest, attributes=0x40),
        "a producer without a sequence": relabelled(honest, producer_id=7, producer_epoch=0),
        "a sequence without a producer": relabelled(honest, base_sequence=5),
    }


def overflowing_times(key: bytes) -> bytes:
    """A batch whose second record is later than int64 can say: base and delta are each allowed, their sum is not."""
    records = [NewRecord(key=key, value=b"1", timestamp_ms=0), NewRecord(key=key, value=b"2", timestamp_ms=INT64_MAX)]
    return relabelled(bytes(build_batch(records)), base_timestamp=NOW_MS, max_timestamp=NOW_MS)


_LIES = lies()


def any_batch(draw: Random) -> bytes:
    """An honest batch, one with a lie, one that was damaged on its way, or nothing of the kind."""
    kind = draw.choice(("honest", "honest", "lie", "lie", "lie", "damaged", "cut", "two", "offset", "noise"))
    records = [NewRecord(key=draw.randbytes(3), value=draw.randbytes(20), timestamp_ms=NOW_MS) for _ in range(3)]
    honest = bytes(build_batch(records, compression=draw.randint(0, 4)))
    if kind == "lie":
        return _LIES[draw.choice(sorted(_LIES))]
    if kind == "damaged":
        damaged = bytearray(honest)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        return bytes(damaged)
    if kind == "cut":
        return honest[: draw.randrange(len(honest))]
    if kind == "two":
        return honest + honest
    if kind == "offset":
        placed = bytearray(honest)
        pack_into(">q", placed, 0, draw.choice((-1, 5, INT64_MAX)))
        return bytes(placed)
    return draw.randbytes(draw.choice((0, 1, 61, 200))) if kind == "noise" else honest
