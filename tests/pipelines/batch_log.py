"""What Spark's checkpoint says of each micro-batch: up to where it read, at which watermark, and whether it is done.

Spark writes `offsets/<batch>` before it runs a batch and `commits/<batch>` after; a replay runs with the same file.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from spark_connector.checkpoint import Offsets, kafka_offsets


@dataclass(frozen=True, slots=True)
class Batch:
    """One entry of the log."""

    number: int
    watermark_ms: int
    ends: Offsets
    """The next offset of each partition of the sources."""
    committed: bool


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    except FileNotFoundError:
        return []


def _read(checkpoint: str, number: int, *, committed: bool) -> Batch:
    lines = (Path(checkpoint) / "offsets" / str(number)).read_text().splitlines()
    watermark_ms = int(json.loads(lines[1])["batchWatermarkMs"])
    return Batch(number, watermark_ms, kafka_offsets(lines[2:]), committed)


def batches(checkpoint: str) -> list[Batch]:
    """The whole log, in order."""
    done = set(_numbers(Path(checkpoint) / "commits"))
    numbers = _numbers(Path(checkpoint) / "offsets")
    return [_read(checkpoint, number, committed=number in done) for number in numbers]


def last_committed(checkpoint: str) -> Batch | None:
    """The last batch that Spark has noted as done."""
    done = _numbers(Path(checkpoint) / "commits")
    return _read(checkpoint, done[-1], committed=True) if done else None


def has_read(checkpoint: str, topic: str, last: dict[int, int]) -> bool:
    """Whether all of a topic up to these offsets is in batches that are done."""
    batch = last_committed(checkpoint)
    if batch is None:
        return False
    return all(batch.ends.get((topic, partition), 0) > offset for partition, offset in last.items())
