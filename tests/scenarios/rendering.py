"""An answer as text: one line for a structure's own fields, its lists of structures below it.

Every field that the version carries is shown, but for those whose value is what "nothing to say" looks like (-1, null,
the empty string) and which have that as their default. Partitions are written as topic-index.
"""

from collections.abc import Iterator
from typing import Any

from protocol.records.batch import CorruptRecords, check_crc, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import Record, records_of
from protocol.schema import FieldSchema, Primitive
from tallystick.client.reading import joined
from tests.scenarios import normalise
from tests.scenarios.normalise import Names
from tests.scenarios.requests import columns_of

TOPIC_FIELDS = ("name", "topic", "topic_id")
INDEX_FIELDS = ("partition_index", "partition", "partition_id", "index")
CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def answer_lines(message: Any, version: int, names: Names) -> list[str]:
    """An answer, its first line marked with =>."""
    lines = list(structure(message, version, names))
    return marked(lines)


def marked(lines: list[str]) -> list[str]:
    """=> in front of the first line, the others aligned below."""
    if not lines:
        return ["=> nothing"]
    return [f"=> {lines[0]}", *(f"   {line}" for line in lines[1:])]


def structure(value: Any, version: int, names: Names, topic: str | None = None) -> Iterator[str]:
    """The lines of one structure."""
    own: list[str] = []
    below: list[str] = []
    whole = type(value).__name__ in normalise.SHOWN_WHOLE
    carried = [spec for spec in _carried(value, version) if whole or spec.name not in normalise.LEFT_OUT]
    lists = sum(_is_structures(spec) for spec in carried)
    topic_here = _topic_of(value, version, names)
    for spec in carried:
        content = getattr(value, spec.name)
        if topic_here is not None and spec.name in TOPIC_FIELDS:
            continue
        if topic is not None and spec.name in INDEX_FIELDS:
            own.insert(0, f"{topic}-{content}")
        elif spec.name == "records":
            below += [f"  {line}" for line in batch_lines(joined(value), names)]
        elif spec.name != "aborted_transactions" and _is_structures(spec) and content is not None:
            lines = _children(value, spec, version, names, topic_here)
            below += lines if lists == 1 else [f"{spec.name}:", *(f"  {line}" for line in lines)] if lines else []
            own += [f"{spec.name}=[]"] if lists > 1 and not lines else []
        else:
            own += _own_words(value, spec, version, names, topic_here)
    if topic_here is not None and not (below and not own):
        own.insert(0, topic_here)
    if own:
        yield " ".join(own)
    yield from (f"  {line}" for line in below) if own else below


def _own_words(value: Any, spec: FieldSchema, version: int, names: Names, topic: str | None) -> list[str]:
    """A field that stands in the structure's own line, if it says anything."""
    content = getattr(value, spec.name)
    if spec.name == "aborted_transactions":
        return [f"aborted={_aborted(content, names)}"]
    if topic is not None and topic.startswith("__") and spec.name == "partitions":
        return ["partitions=[*]"]
    if spec.name == "producer_id" and content == 0 and getattr(value, "error_code", 0):
        return ["producer_id=0"]  # nobody's
    if spec.name == "epoch" and type(value).__name__ in normalise.OWN_EPOCHS:
        return [f"epoch={content}"]
    if spec.name in normalise.VARIES.get(type(value).__name__, ()):
        return [f"{spec.name}={content if getattr(value, 'error_code', 0) else '…'}"]
    return [] if _says_nothing(spec, content, version) else [_written(spec, content, version, names)]


def _aborted(listed: Any, names: Names) -> str:
    if listed is None:
        return "null"
    shown = [f"{normalise.number(names, 'producer_id', one.producer_id)}@{one.first_offset}" for one in listed]
    return "[" + " ".join(shown) + "]"


def _written(spec: FieldSchema, content: Any, version: int, names: Names) -> str:
    if not isinstance(spec.element, Primitive) and content is not None:
        return f"{spec.name}: " + " ".join(structure(content, version, names))
    return normalise.scalar(names, spec.name, content)


def _children(value: Any, spec: FieldSchema, version: int, names: Names, topic: str | None) -> list[str]:
    keep = normalise.keeps(names, type(value).__name__)
    entries = [entry for entry in getattr(value, spec.name) if keep(entry)]
    shown = [list(structure(entry, version, names, topic)) for entry in entries]
    if spec.name in normalise.SORTED:
        shown.sort()
    return [line for lines in shown for line in lines]


def _carried(value: Any, version: int) -> list[FieldSchema]:
    return [spec for spec in columns_of(type(value)) if spec.in_version(version)]


def _is_structures(spec: FieldSchema) -> bool:
    return spec.is_array and not isinstance(spec.element, Primitive)


def _topic_of(value: Any, version: int, names: Names) -> str | None:
    """The name of the topic whose partitions, or itself, a structure describes."""
    carried = {spec.name for spec in _carried(value, version)}
    if "partition_indexes" not in carried and not any("artition" in name or name == "configs" for name in carried):
        return None
    for name in TOPIC_FIELDS[:2]:
        if name in carried and getattr(value, name) is not None:
            return names.plain(getattr(value, name)) or '""'
    if "topic_id" in carried and "partition" not in carried:
        return normalise.topic_id(names, value.topic_id)
    return None


def _says_nothing(spec: FieldSchema, content: Any, version: int) -> bool:
    if spec.tagged_in(version) and content == spec.default:
        return True
    if spec.name.endswith("error_code"):
        return spec.name not in ("error_code", "partition_error_code") and content == 0
    if isinstance(content, bytes) and not any(content):
        return True
    return content == spec.default and content in (-1, None, "", -(1 << 31)) and content is not False


def batch_lines(data: bytes, names: Names) -> Iterator[str]:
    """Every batch as it stands in the log."""
    for position, header in headers_in(data):
        last = header.last_offset
        words = [str(header.base_offset) if last == header.base_offset else f"{header.base_offset}-{last}"]
        if header.producer_id >= 0:
            producer = normalise.number(names, "producer_id", header.producer_id)
            words.append(f"{producer}:{header.producer_epoch}")
        if header.is_control:
            words += _marker(data, position, names)
        else:
            words += [f"seq={header.base_sequence}"] if header.base_sequence >= 0 else []
            words += ["transactional"] if header.is_transactional else []
            words += ["append-time"] if header.log_append_time else []
            words += [CODECS[header.compression]] if header.compression else []
            words += _contents(data, position, names)
        if header.leader_epoch != names.base_epoch:
            words.append(f"leader_epoch={normalise.number(names, 'leader_epoch', header.leader_epoch)}")
        if not check_crc(data, position, header):
            words.append("WRONG CHECKSUM")
        yield " ".join(words)


def _marker(data: bytes, position: int, names: Names) -> list[str]:
    marker = read_end_transaction(data, position)
    if marker is None:
        return ["control"]
    epoch = normalise.number(names, "coordinator_epoch", marker.coordinator_epoch)
    return ["COMMIT" if marker.commit else "ABORT", f"coordinator_epoch={epoch}"]


def _contents(data: bytes, position: int, names: Names) -> list[str]:
    try:
        return [record_word(record, names) for record in records_of(data, position)]
    except CorruptRecords:
        return ["UNREADABLE"]


def record_word(record: Record, names: Names) -> str:
    """A record: value, key:value, and when it was made, if that is not the story's zero."""
    value = "null" if record.value is None else names.plain(record.value.decode("latin-1"))
    word = value if record.key is None else f"{names.plain(record.key.decode('latin-1'))}:{value}"
    if len(word) > 40:
        word = f"{word[:10]}…({len(word)})"
    time = normalise.time(names, record.timestamp_ms)
    return word if time in ("T+0", "now", "-1") else f"{word}@{time}"
