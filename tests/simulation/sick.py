"""One log that the disk has spoilt: a bit of what was synced long ago is another, or reading it fails.

Nobody but readers of that log is to notice: it answers KAFKA_STORAGE_ERROR where it cannot be read, all others are
served, the broker lives on, and nothing of the log is cut away. Then somebody puts the bytes back and starts the broker
again, as an operator would with a copy, and all is as it was.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from broker.node import Node
from protocol.records.batch import CorruptRecords, headers_in
from storage.checkpoints import RECOVERY_POINTS, read_offsets
from storage.segments.segment_format import base_offset_of
from tests.harness.disk import SimulatedDisk
from tests.simulation.history import History, Place
from tests.simulation.shape import FaultPlan

INTERNAL = ("__consumer_offsets", "__transaction_state")
TOPICS = ("a", "b", "out", "c", *INTERNAL)
OFFSET_BYTES, CHECKED_FROM = 8, 21
"""Of a batch: the length of its first field, and where what the checksum covers begins."""
BIT, UNREADABLE = "bit", "unreadable"


def draw_sick(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """In some runs such a log, from a start of the broker on."""
    if random.random() >= 0.12:
        return ()
    at_s, kind = random.random() * duration_s * 0.8, random.choice((BIT, BIT, UNREADABLE))
    end = FaultPlan(random.choice(("stop", "stop", "kill")), at_s, down_s=0.01)
    return end, FaultPlan(kind, at_s, count=random.randrange(1 << 16), amount=random.random())


@dataclass(slots=True)
class Sick:
    """What was done to which log. `path` is that of a segment, or of all of a folder where reading fails."""

    place: Place
    path: str
    position: int = 0
    before: bytes = b""
    """The segment as it was, as far as it was known to be on the disk."""

    def is_unreadable(self, path: str) -> bool:
        return not self.before and path.startswith(self.path + "/") and path.endswith(".log")

    def heal(self, disk: SimulatedDisk, history: History) -> None:
        """Put it right, while the broker is down. What was there has to be there still."""
        if not self.before:
            return
        if not disk.exists(self.path):
            base = base_offset_of(self.path.rpartition("/")[2])
            assert base is not None
            history.vanished.append((self.place, base))
            return
        inode = disk.inode(self.path)
        spoilt = bytearray(self.before)
        spoilt[self.position] ^= 1
        if inode.content[: len(spoilt)] == spoilt:
            disk.damage(self.path, self.position)
        elif self.place[0] not in (*INTERNAL, *history.compacted):
            history.violation(f"the broker changed {self.path}, which the disk had spoilt")


def fall_sick(disk: SimulatedDisk, fault: FaultPlan) -> Sick | None:
    """Spoil a log while the broker is down: one of those that have something below their recovery point."""
    logs = sorted(_known_to_be_synced(disk))
    wanted = [log for log in logs if log[0][0] not in INTERNAL or fault.count % 4 == 0]
    if not wanted:
        return None
    place, path, size = wanted[fault.count % len(wanted)]
    if fault.kind == UNREADABLE:
        return Sick(place, path.rpartition("/")[0])
    before = bytes(disk.inode(path).content[:size])
    position = _checked(before, int(size * fault.amount))
    sick = Sick(place, path, position, before)
    disk.damage(path, position)
    return sick


def _checked(content: bytes, position: int) -> int:
    """`position`, or one behind it that a checksum covers: no checksum covers the offset of a batch, and one that is
    too high is believed, by Kafka, too."""
    for start, _ in headers_in(content):
        if start <= position < start + OFFSET_BYTES:
            return start + CHECKED_FROM
    return position


def _known_to_be_synced(disk: SimulatedDisk) -> Iterator[tuple[Place, str, int]]:
    """Segments, and how many bytes of each lie below the recovery point."""
    for (topic, index), recovery_point in read_offsets(disk, RECOVERY_POINTS).items():
        folder = f"{topic}-{index}"
        for name in disk.list(folder) if topic in TOPICS else ():
            if not name.endswith(".log") or (inode := disk.inode(f"{folder}/{name}")).platter is not None:
                continue
            content = bytes(inode.content)
            size = 0
            with contextlib.suppress(CorruptRecords):  # a power cut has torn the end
                for position, header in headers_in(content):
                    if header.next_offset <= recovery_point:
                        size = position + header.size
            if size:
                yield (topic, index), f"{folder}/{name}", size


def wrong_patients(node: Node, sick: Sick) -> Iterator[str]:
    """Logs that are out of use, and are not spoilt."""
    for partition in node.services.topics.offline():
        if (partition.topic, partition.index) != sick.place:
            yield f"{partition.topic}-{partition.index} is offline, and {sick.place} is the one that is spoilt"
