"""Varints of many records at once, and where records begin.

A record says how long it is, and where the next one begins is known only then: that chain is walked. Runs of records
of one size are recognised and walked by one comparison; everything else is a loop over bytes that makes no objects
but positions. All that lies inside the records is read column by column: the first byte of all key lengths, then the
second byte of those that have one, and so on.
"""

from typing import Any

import numpy as np

from protocol.records.batch import CorruptRecords

INT = 5
LONG = 10
"""The most bytes of a varint and a varlong."""
_RUN_AT_LEAST = 24
_STEPS_BETWEEN_TRIES = 256


def unsigned_varints(data: Any, at: Any, most_bytes: int) -> tuple[Any, Any]:
    """The varints that begin at the positions `at` of the bytes `data`, and the positions behind them.

    Arrays of int64. Raises `CorruptRecords` for varints that are too long; IndexError behind the end of the data.
    """
    byte = data.take(at)
    values = (byte & 0x7F).astype(np.int64)
    behind = at + 1
    shift = 7
    while (byte >= 0x80).all() and byte.size and shift < 7 * most_bytes:
        byte = data.take(behind)
        values |= (byte & 0x7F).astype(np.int64) << shift
        behind += 1
        shift += 7
    unfinished = np.flatnonzero(byte & 0x80)
    while unfinished.size:
        if shift >= 7 * most_bytes:
            raise CorruptRecords("a varint without an end")
        where = behind[unfinished]
        following = data.take(where)
        values[unfinished] |= (following & 0x7F).astype(np.int64) << shift
        behind[unfinished] = where + 1
        unfinished = unfinished[following >= 0x80]
        shift += 7
    return values, behind


def signed_varints(data: Any, at: Any, most_bytes: int) -> tuple[Any, Any]:
    """The same in zig-zag: 0, -1, 1, -2 …"""
    values, behind = unsigned_varints(data, at, most_bytes)
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1), behind


def record_starts(data: Any, position: int, end: int, count: int) -> list[Any]:
    """Where each of `count` records begins, which together fill data[position:end]; arrays one after the other.

    Raises `CorruptRecords` where they do not. That the lengths are lengths is for the reader of the columns to check.
    """
    raw = data[position:end].tobytes()
    pieces: list[Any] = []
    at, left = 0, count
    try:
        while left:
            if left >= _RUN_AT_LEAST:
                size, run = _run_of_one_size(raw, at, left)
                pieces.append(np.arange(run, dtype=np.int64) * size + (position + at))
                at += run * size
                left -= run
                if run >= _RUN_AT_LEAST:
                    continue
            steps = min(left, _STEPS_BETWEEN_TRIES)
            at, walked = _walk(raw, at, steps)
            pieces.append(np.array(walked, dtype=np.int64) + position)
            left -= steps
    except IndexError as error:
        raise CorruptRecords("fewer records than the batch says") from error
    if at != end - position:
        raise CorruptRecords(f"records of {at} bytes in {end - position}")
    return pieces


def _run_of_one_size(raw: bytes, at: int, most: int) -> tuple[int, int]:
    """The size of the record at `at`, and how many from there on have it. At least that one."""
    length, behind = _length_at(raw, at)
    size = behind - at + length
    most = min(most, (len(raw) - at) // size)
    if most < 1:
        raise CorruptRecords("a record longer than its batch")
    differs = None
    for place in range(at, behind):
        column = np.frombuffer(raw, np.uint8, (most - 1) * size + 1, place)[::size]
        unequal = column != raw[place]
        differs = unequal if differs is None else differs | unequal
    assert differs is not None
    run = int(differs.argmax())
    return size, run or most


def _length_at(raw: bytes, at: int) -> tuple[int, int]:
    """A record's length, and where what it counts begins. Its sign is left out."""
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1, at
        shift += 7
        if shift >= 7 * INT:
            raise CorruptRecords("a record length without an end")


def _walk(raw: bytes, at: int, steps: int) -> tuple[int, list[int]]:
    """The positions of the next records one by one; lengths of one and two bytes, which most are, in place."""
    starts: list[int] = []
    append = starts.append
    for _ in range(steps):
        append(at)
        low = raw[at]
        if low < 0x80:
            at += (low >> 1) + 1
            continue
        high = raw[at + 1]
        if high < 0x80:
            at += ((low & 0x7F | high << 7) >> 1) + 2
        else:
            length, behind = _length_at(raw, at)
            at = behind + length
    return at, starts
