"""Files one by one, in the words of `kafka-dump-log`: segments, indexes, snapshots, checkpoints.

What a record holds reaches a terminal only as visible characters. A file that is not whole is shown as far as it is,
and named at the end.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from broker.offline.dumped_tables import TABLES, NotWhole
from broker.offline.untouched import ReadFile
from broker.offline.walk import Batch, Rest, batches_in
from protocol.records.batch import BatchHeader, CorruptRecords
from protocol.records.compression import NAMES
from protocol.records.control import read_control_type, read_end_transaction
from protocol.records.record import Record, records_of
from storage.producers.producer_snapshot import SnapshotUnreadable
from storage.segments.segment_format import INDEX, LOG, base_offset_of

LOGS = (LOG, ".checkpoint")
"""Ends of names of files that hold batches: segments, and snapshots of the metadata."""
_LARGEST_TEXT = 1 << 20
_OPTIONAL = frozenset({"deleteHorizonMs", "currentTxnFirstOffset"})
"""What Kafka's tool says in Java's words where it may be missing."""
Say = Callable[[str], None]


@dataclass(slots=True)
class Dump:
    """One run over some files."""

    say: Say
    as_json: bool
    with_records: bool
    wrong: list[str] = field(default_factory=list[str])
    """Sentences."""

    def file(self, path: str) -> None:
        """Show one. Raises `OSError`."""
        name = os.path.basename(path)
        file = ReadFile(path)
        try:
            if not self.as_json:
                self.say(f"Dumping {printable(path)}")
            table = next((TABLES[suffix] for suffix in TABLES if name.endswith(suffix)), None)
            if name.endswith(LOGS) and not name.endswith("-checkpoint"):
                self._log(path, name, file)
            elif table is not None:
                if name.endswith(INDEX) and not file.size() and not self.as_json:
                    self.say(f"{printable(path)} is empty.")
                for row in table(name, file.whole()):
                    self._row(path, row)
            else:
                self._text(path, file)
        except (NotWhole, SnapshotUnreadable) as problem:
            self._is_wrong(path, str(problem))
        finally:
            file.close()

    def _is_wrong(self, path: str, what: str) -> None:
        self.wrong.append(f"{printable(path)}: {what}")

    def _row(self, path: str, row: Mapping[str, int | None]) -> None:
        if self.as_json:
            self.say(json.dumps({"file": path, **row}))
        else:
            self.say(" ".join(_said(name, value) for name, value in row.items()))

    def _text(self, path: str, file: ReadFile) -> None:
        if file.size() > _LARGEST_TEXT:
            self._is_wrong(path, "it is none of the files of a log")
            return
        try:
            lines = file.whole().decode().splitlines()
        except UnicodeDecodeError:
            self._is_wrong(path, "it is none of the files of a log")
            return
        for line in lines:
            self.say(json.dumps({"file": path, "line": line}) if self.as_json else printable(line))

    def _log(self, path: str, name: str, file: ReadFile) -> None:
        base = base_offset_of(name)
        if base is not None and not self.as_json:
            self.say(f"Log starting offset: {base}")
        for found in batches_in(file, file.size()):
            if isinstance(found, Rest):
                self._is_wrong(
                    path, f"{found.size_bytes} bytes from byte {found.position} on are no batch: {found.why}"
                )
                return
            self._batch(path, found)

    def _batch(self, path: str, found: Batch) -> None:
        row = batch_row(found)
        records = list(self._records(path, found)) if self.with_records and found.crc_is_right else []
        if self.as_json:
            self.say(json.dumps({"file": path, **row} | ({"records": records} if self.with_records else {})))
        else:
            self.say(" ".join(_said(name, value) for name, value in row.items()))
            for record in records:
                self.say("| " + " ".join(_said(name, value) for name, value in record.items()))
        if not found.crc_is_right:
            self._is_wrong(path, f"the checksum of the batch at byte {found.position} is wrong")

    def _records(self, path: str, found: Batch) -> Iterator[dict[str, object]]:
        header = found.header
        try:
            ended = read_end_transaction(found.data) if header.is_control and header.records_count else None
            for record in records_of(found.data):
                yield record_row(header, record, self.as_json) | (
                    {"endTxnMarker": "COMMIT" if ended.commit else "ABORT", "coordinatorEpoch": ended.coordinator_epoch}
                    if ended is not None
                    else _payload(header, record)
                )
        except CorruptRecords as problem:
            self._is_wrong(path, f"the batch at byte {found.position} cannot be read: {problem}")


def batch_row(found: Batch) -> dict[str, object]:
    """A batch by Kafka's names."""
    header = found.header
    kind = "LogAppendTime" if header.log_append_time else "CreateTime"
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.records_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
        "position": found.position,
        kind: header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": NAMES[header.compression] if header.compression < len(NAMES) else header.compression,
        "crc": header.crc,
        "isvalid": found.crc_is_right,
    }


def record_row(header: BatchHeader, record: Record, as_json: bool) -> dict[str, object]:
    """A record by Kafka's names, without what it holds."""
    keys = [name for name, _ in record.headers]
    sequence = (
        header.base_sequence if header.base_sequence < 0 else header.base_sequence + record.offset - header.base_offset
    )
    return {
        "offset": record.offset,
        "LogAppendTime" if header.log_append_time else "CreateTime": record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence & 0x7FFFFFFF if sequence >= 0 else sequence,
        "headerKeys": keys if as_json else f"[{printable(','.join(keys))}]",
    }


def _payload(header: BatchHeader, record: Record) -> dict[str, object]:
    if header.is_control:
        return {"controlType": read_control_type(record.key)}
    held = {"key": record.key, "payload": record.value}
    return {name: data.decode("utf-8", "backslashreplace") for name, data in held.items() if data is not None}


def _said(name: str, value: object) -> str:
    if name in _OPTIONAL:
        value = "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    return f"{name}: {printable(str(value).lower() if isinstance(value, bool) else str(value))}"


def printable(text: str) -> str:
    """With escapes for what is no visible character."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
