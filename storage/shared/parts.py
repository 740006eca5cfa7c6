"""The parts of a log in a shared store: what leaves as a whole, as segments do on a disk, by retention.

A part ends where a checkpoint is wanted: after 16 MiB, ten thousand batches, or what segment.bytes and segment.ms say;
and after a thousand runs, where each may be an object of its own that whoever opens the log has to bring.

    0                            version
    8192                         where the last one ended when this was written
    2                            how many lines follow
    0 104857 9871 1790000000000 1789999000000 31 1789999000005
                                 base offset, bytes, batches, newest timestamp, when begun, runs, first timestamp
    4096 20480 12 1790000000500 1790000000400 12 1790000000400
"""

from dataclasses import dataclass, fields

from storage.log import LogConfig
from storage.segments.segment import roll_age_ms
from storage.segments.stamping import Placed

PARTS_FILE = "parts"
PART_BATCHES = 10_000
"""What a start replays at most, in one turn of the loop."""
PART_BYTES = 16 << 20
PART_RUNS = 1_000


@dataclass(slots=True, eq=False)
class Part:
    """One of them."""

    base_offset: int
    size_bytes: int = 0
    batches: int = 0
    newest_ms: int = -1
    begun_ms: int = 0
    runs: int = 0
    """In the store, about."""
    first_ms: int = -1
    """The newest timestamp of its first batch, which gives its age."""

    def take(self, placed: Placed) -> None:
        """A batch more."""
        if not self.batches:
            self.first_ms = placed.max_timestamp_ms
        self.size_bytes += placed.size_bytes
        self.batches += 1
        self.newest_ms = max(self.newest_ms, placed.max_timestamp_ms)

    def is_over(self, placed: Placed, config: LogConfig, now_ms: int, name: str, most_runs: int) -> bool:
        """Whether a batch belongs to the next one: as with segments, see `Segment.has_room`."""
        if not self.batches:
            return False
        is_large = self.size_bytes + placed.size_bytes > min(PART_BYTES, config.segment_bytes)
        age_ms = placed.max_timestamp_ms - self.first_ms if self.first_ms >= 0 else now_ms - self.begun_ms
        is_many = self.batches >= PART_BATCHES or self.runs >= most_runs
        return is_large or is_many or age_ms > roll_age_ms(config, name, self.base_offset)


def to_bytes(parts: list[Part], end_offset: int) -> bytes:
    """The file."""
    written = [" ".join(str(getattr(one, field.name)) for field in fields(one)) for one in parts]
    return "\n".join(["0", str(end_offset), str(len(written)), *written, ""]).encode()


def from_bytes(data: bytes) -> tuple[list[Part], int]:
    """The parts, and where the last of them ended. Raises `ValueError` where it is not such a file."""
    version, end_offset, count, *lines = data.decode("ascii").splitlines()
    parts = [Part(*(int(number) for number in line.split(" "))) for line in lines]
    if int(version) != 0 or int(count) != len(parts) or not parts:
        raise ValueError("not the parts of a log")
    return parts, int(end_offset)


def due_parts(
    parts: list[Part], config: LogConfig, now_ms: int, *, start_offset: int, end_offset: int, high_watermark: int
) -> int:
    """How many, counted from the oldest, may go. Kafka's three rules, see `storage.retention`."""
    by_time = config.cleanup_delete and config.retention_ms >= 0
    by_size = config.cleanup_delete and config.retention_bytes >= 0
    excess_bytes = sum(one.size_bytes for one in parts) - config.retention_bytes if by_size else -1
    for count, part in enumerate(parts):
        is_last = count + 1 == len(parts)
        ends = end_offset if is_last else parts[count + 1].base_offset
        if ends > high_watermark or not part.batches:
            return count
        excess_bytes -= part.size_bytes
        newest_ms = part.newest_ms if part.newest_ms >= 0 else part.begun_ms
        is_old = by_time and now_ms - newest_ms > config.retention_ms
        if not is_old and not (by_size and excess_bytes >= 0) and not (ends <= start_offset and not is_last):
            return count
    return len(parts)
