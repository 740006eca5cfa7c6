"""What a Produce carries: good batches, and batches that are wrong in a way that a step names.

    Produce t-0 a k:v k:null          values, or keys and values; sequences go on from the last batch
    Produce t-0 a t-1 b               a batch for each partition
    seq=5 producer_id=P1 epoch=0      otherwise than the client remembers it
    plain                             no producer id at all;  idempotent: one, but no transaction
    at=T+5                            the time of its records
    codec=gzip  batches=2             compressed; values spread over so many batches
    crc=wrong  magic=1  count=5  base_offset=7  control=true  transactional=false  last_offset_delta=3  length=wrong
    codec=7                           nonsense, bit by bit

The sequence that a client goes on with is counted when it sends, not when it is answered; `again` sends the last
batch of that partition once more, byte for byte.
"""

import re
from typing import Any

from protocol.records import compression
from protocol.records.batch import HEADER, read_header, seal
from protocol.records.record import NewRecord, build_batch
from tests.scenarios.normalise import Names
from tests.scenarios.phrases import partition
from tests.scenarios.requests import Client

CODECS = {"gzip": compression.GZIP, "snappy": compression.SNAPPY, "lz4": compression.LZ4, "zstd": compression.ZSTD}
SEQUENCES = 1 << 31
BATCH_WORDS = {
    "seq", "producer_id", "epoch", "at", "codec", "batches", "crc", "magic", "count", "base_offset", "control",
    "transactional", "last_offset_delta", "length", "size",
}  # fmt: skip


def produce(words: list[str], said: dict[str, Any], client: Client, names: Names) -> dict[str, Any]:
    """The fields of a Produce request."""
    shape = {name: said.pop(name) for name in list(said) if name in BATCH_WORDS}
    flags = {word for word in words if word in ("plain", "idempotent", "again")}
    parts: list[tuple[str, list[str]]] = []
    for word in words:
        if word in flags:
            continue
        if re.fullmatch(r'("[^"]*"|[\w.]+)-\d+', word):
            parts.append((word, []))
        else:
            parts[-1][1].append(word)
    if {"plain", "idempotent"} & flags:
        said.setdefault("transactional_id", None)
    topics: list[dict[str, Any]] = []
    for place, values in parts:
        topic, index = partition(place)
        if "again" in flags:
            records = client.remembered[f"sent to {place}"]
        else:
            records = _records(place, values, shape, flags, client, names, said)
            client.remembered[f"sent to {place}"] = records
        if not topics or topics[-1]["name"] != topic:
            topics.append({"name": topic, "partition_data": []})
        topics[-1]["partition_data"].append({"index": index, "records": records})
    return {**said, "topic_data": topics}


def _records(
    place: str,
    values: list[str],
    shape: dict[str, Any],
    flags: set[str],
    client: Client,
    names: Names,
    said: dict[str, Any],
) -> bytes:
    if not values:
        return b""
    memory = client.remembered
    producer_id = -1 if "plain" in flags else int(shape.get("producer_id", memory.get("producer_id", -1)))
    epoch = -1 if producer_id < 0 else int(shape.get("epoch", memory.get("producer_epoch", -1)))
    named = said.get("transactional_id", memory.get("transactional_id")) is not None
    transactional = bool(shape.get("transactional", named and producer_id >= 0))
    count = int(shape.get("batches", 1))
    spread = [values[part * len(values) // count : (part + 1) * len(values) // count] for part in range(count)]
    batches = []
    for texts in spread:
        sequence = _sequence(place, len(texts), shape, client) if producer_id >= 0 else int(shape.get("seq", -1))
        batch = build_batch(
            [_record(text, shape, names) for text in texts],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
            control=bool(shape.get("control", False)),
            compression=CODECS.get(str(shape.get("codec")), compression.NONE),
            base_offset=int(shape.get("base_offset", 0)),
        )
        batches.append(_spoiled(bytearray(batch), shape))
    return b"".join(batches)


def _sequence(place: str, count: int, shape: dict[str, Any], client: Client) -> int:
    sequence = int(shape.get("seq", client.sequences.get(place, 0)))
    client.sequences[place] = (sequence + count) % SEQUENCES
    return sequence


def _record(text: str, shape: dict[str, Any], names: Names) -> NewRecord:
    key, colon, value = text.rpartition(":")
    data = None if value == "null" else value.encode()
    if "size" in shape:
        data = b"x" * int(shape["size"])
    return NewRecord(value=data, key=key.encode() if colon else None, timestamp_ms=int(shape.get("at", names.zero_ms)))


def _spoiled(batch: bytearray, shape: dict[str, Any]) -> bytes:
    """The batch with what is wrong about it; all but a wrong checksum is sealed."""
    header = read_header(batch)
    changes: dict[str, int] = {}
    if "count" in shape:
        changes["records_count"] = int(shape["count"])
    if "last_offset_delta" in shape:
        changes["last_offset_delta"] = int(shape["last_offset_delta"])
    if "magic" in shape:
        changes["magic"] = int(shape["magic"])
    if isinstance(shape.get("codec"), int):
        changes["attributes"] = header.attributes | shape["codec"]
    if changes:
        HEADER.pack_into(batch, 0, *header._replace(**changes))
        seal(batch)
    if shape.get("crc") == "wrong":
        batch[17] ^= 0xFF
    if shape.get("length") == "wrong":
        batch[11] ^= 0x01
    return bytes(batch)
