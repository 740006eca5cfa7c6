"""What Spark's checkpoint says about a query and its batches, as text of its files; reading them is `checkpoint_files`.

`<checkpoint>/metadata` is JSON with the query's id. `<checkpoint>/offsets/<batch>` is text: a version, a line of
metadata, then a line of offsets per source, `-` where a source has none:

    v1   the offsets alone, in the order of the sources
    v2   `name:` before them, for sources with names

Those of a Kafka source, the stock one and ours alike, are `{topic: {partition: next offset}}`. Spark writes the file
before it runs the batch, and a replay runs with the same file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_connector.errors import SourceOffsetsUnknown

Offsets = dict[tuple[str, int], int]
_VERSIONS = ("v1", "v2")


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch as Spark has planned it."""

    sources: list[str]
    """A line for each source that has offsets; of version 2 in the order of their names."""
    planned_ms: int
    """When Spark wrote it down; -1 where the file does not say."""


def planned(text: str, path: str) -> Planned:
    """What an offsets file says. Raises `SourceOffsetsUnknown`."""
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] not in _VERSIONS:
        raise SourceOffsetsUnknown(f"{path} is of a version that is not known here: {lines[:1]}")
    sources = [line for line in lines[2:] if _offsets_of(line) != "-"]
    when = _object(lines[1]).get("batchTimestampMs")
    return Planned(sorted(sources) if lines[0] == "v2" else sources, when if isinstance(when, int) else -1)


def query_id(text: str, path: str) -> str:
    """The id in a checkpoint's file `metadata`. Raises `SourceOffsetsUnknown`."""
    found = _object(text).get("id")
    if not isinstance(found, str):
        raise SourceOffsetsUnknown(f"{path} has no query's id: {text[:80]!r}")
    return found


def kafka_offsets(lines: list[str]) -> Offsets:
    """The offsets of all Kafka sources among the lines; where two read the same partition, the lower one."""
    found: Offsets = {}
    for line in lines:
        for topic, partitions in _object(_offsets_of(line)).items():
            if not isinstance(partitions, dict):
                continue
            for partition, offset in partitions.items():
                if partition.isdigit() and isinstance(offset, int):
                    where = (topic, int(partition))
                    found[where] = min(offset, found.get(where, offset))
    return found


def _offsets_of(line: str) -> str:
    """A line without its source's name; a name is letters, digits and `_`."""
    name, colon, offsets = line.partition(":")
    return offsets if colon and name.replace("_", "").isalnum() else line


def _object(text: str) -> Mapping[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
