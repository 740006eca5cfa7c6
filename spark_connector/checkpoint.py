"""What Spark's checkpoint says about a batch, read from its write-ahead log of offsets.

`<checkpoint>/offsets/<batch>` is text: a line `v1`, a line of metadata, then a line of offsets per source, `-` where a
source has none. Those of a Kafka source, the stock one and ours alike, are `{topic: {partition: next offset}}`.
Spark writes the file before it runs the batch, and a replay runs with the same file.
"""

import json
from collections.abc import Mapping

from spark_connector.errors import SourceOffsetsUnknown

Offsets = dict[tuple[str, int], int]


def source_lines(location: str, batch_id: int) -> list[str]:
    """The line of each source. Raises `SourceOffsetsUnknown`."""
    from pyarrow import fs

    path = f"{location.rstrip('/')}/offsets/{batch_id}"
    try:
        if "://" in path or path.startswith("file:"):
            files, inner = fs.FileSystem.from_uri(path.replace("file:/", "file:///", 1) if "://" not in path else path)
        else:
            files, inner = fs.LocalFileSystem(), path
        with files.open_input_stream(inner) as stream:
            lines = stream.read().decode().splitlines()
    except (OSError, ValueError) as error:
        raise SourceOffsetsUnknown(f"the checkpoint's {path} cannot be read: {error}") from error
    if len(lines) < 2 or lines[0] != "v1":
        raise SourceOffsetsUnknown(f"{path} is of a version that is not known here: {lines[:1]}")
    return [line for line in lines[2:] if line != "-"]


def kafka_offsets(lines: list[str]) -> Offsets:
    """The offsets of all Kafka sources among the lines; where two read the same partition, the lower one."""
    found: Offsets = {}
    for line in lines:
        for topic, partitions in _topics(line).items():
            if not isinstance(partitions, dict):
                continue
            for partition, offset in partitions.items():
                if partition.isdigit() and isinstance(offset, int):
                    where = (topic, int(partition))
                    found[where] = min(offset, found.get(where, offset))
    return found


def _topics(line: str) -> Mapping[str, object]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def end_offsets(location: str, batch_id: int) -> Offsets:
    """Up to where a batch has read its Kafka sources. Raises `SourceOffsetsUnknown` where there is none."""
    offsets = kafka_offsets(source_lines(location, batch_id))
    if not offsets:
        raise SourceOffsetsUnknown(f"batch {batch_id} of {location} has no Kafka source: leave option groupId out")
    return offsets
