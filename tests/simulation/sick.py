"""A log that the disk has spoilt, or two: a bit of what was synced long ago is another, or reading it fails, always or
now and then; or so it is with its index of aborted transactions.

Nobody but readers of that log is to notice: it answers KAFKA_STORAGE_ERROR where it cannot be read, all others are
served, the broker lives on, and nothing of the log is cut away. Then somebody puts the bytes back and starts the broker
again, as an operator would with a copy, and all is as it was.
"""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
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
ENTRY_BYTES, PRODUCER_AT = 34, 9
"""Of an index of aborted transactions: the length of an entry, and the last byte of the producer id in it."""
BIT, UNREADABLE, NOW_AND_THEN = "bit", "unreadable", "now and then"
UNREADABLE_INDEX, SPOILT_INDEX = "unreadable index", "spoilt index"
"""Of aborted transactions: from a start on; under a broker that runs."""
KINDS = (BIT, UNREADABLE, NOW_AND_THEN, UNREADABLE_INDEX)
"""What is met at a start."""
LOG, INDEXES, ABORTED = ".log", (".index", ".timeindex"), ".txnindex"
ANY, OURS, THEIRS = "", "internal", "data"
"""Whose log it is."""


def draw_sick(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """In some runs such a log, from a start of the broker on."""
    if random.random() >= 0.12:
        return ()
    at_s, kind = random.random() * duration_s * 0.8, random.choice((BIT, BIT, UNREADABLE))
    end = FaultPlan(random.choice(("stop", "stop", "kill")), at_s, down_s=0.01)
    return end, FaultPlan(kind, at_s, count=random.randrange(1 << 16), amount=random.random())


def draw_now_and_then(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """In some runs one of which every so-many-th read fails, and of each file the first opening (no descriptor is
    left), while its indexes are wrong or empty. By a draw of its own, so that it changes no other."""
    if random.random() >= 0.06:
        return ()
    end = FaultPlan("kill", at_s := random.random() * duration_s * 0.7, down_s=0.01)
    return end, FaultPlan(NOW_AND_THEN, at_s, count=random.randrange(1 << 16), amount=random.random())


def draw_index(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """In some runs an index of aborted transactions that cannot be read, or is damaged while readers go by it. By a
    draw of its own, so that it changes no other."""
    if random.random() >= 0.15:
        return ()
    at_s, kind = random.random() * duration_s * 0.7, random.choice((UNREADABLE_INDEX, SPOILT_INDEX, SPOILT_INDEX))
    fault = FaultPlan(kind, at_s, count=random.randrange(1 << 16), amount=random.random())
    return (fault,) if kind == SPOILT_INDEX else (FaultPlan("kill", at_s, down_s=0.01), fault)


def draw_two(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """In some runs two such logs, met at the same start: a coordinator's and one of records. By a draw of its own."""
    if random.random() >= 0.05:
        return ()
    at_s = duration_s * (0.1 + random.random() * 0.7)
    both = [
        FaultPlan(random.choice((BIT, UNREADABLE)), at_s, whose, random.randrange(1 << 16), random.random())
        for whose in (OURS, THEIRS)
    ]
    return FaultPlan(random.choice(("stop", "kill")), at_s, down_s=0.01), *both


@dataclass(slots=True)
class Sick:
    """What was done to which log. `path` is that of a segment, or of all of a folder where reading fails."""

    place: Place
    path: str
    position: int = 0
    before: bytes = b""
    """The segment as it was, as far as it was known to be on the disk."""
    every: int = 0
    """Of how many reads of its files one fails, and of each the first opening; 0: all reads."""
    ending: str = LOG
    """Of the files that cannot be read, where all reads fail."""
    _looks: int = 0
    _opened: set[str] = field(default_factory=set)

    def fails(self, operation: str, path: str) -> bool:
        """Whether this look at a file, "read" or "open", fails."""
        if self.before or not path.startswith(self.path + "/"):
            return False
        if not self.every:
            return operation == "read" and path.endswith(self.ending)
        if not path.endswith((LOG, *INDEXES, ABORTED)):
            return False
        if operation == "open":
            first = path not in self._opened and not path.endswith(ABORTED)
            self._opened.add(path)
            return first
        self._looks += 1
        return self._looks % self.every == 0

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


def fall_sick(disk: SimulatedDisk, fault: FaultPlan, others: Collection[Place] = ()) -> Sick | None:
    """Spoil a log while the broker is down: one of those that have something below their recovery point."""
    if fault.kind == NOW_AND_THEN:
        logs = sorted(_of_several_segments(disk))
    else:
        logs = sorted(_known_to_be_synced(disk) if fault.kind != UNREADABLE_INDEX else _with_aborted(disk))
    wanted = [log for log in logs if log[0] not in others and _is_meant(fault, log[0][0])]
    if not wanted:
        return None
    place, path, size = wanted[fault.count % len(wanted)]
    if fault.kind in (UNREADABLE, UNREADABLE_INDEX):
        return Sick(place, path.rpartition("/")[0], ending=LOG if fault.kind == UNREADABLE else ABORTED)
    if fault.kind == NOW_AND_THEN:
        for name in disk.list(path):
            if name.endswith(INDEXES):
                disk.spoil(f"{path}/{name}", _wrong if fault.count % 3 else bytearray.clear)
        return Sick(place, path, every=2 + int(fault.amount * 6))
    before = bytes(disk.inode(path).content[:size])
    position = _checked(before, int(size * fault.amount))
    sick = Sick(place, path, position, before)
    disk.damage(path, position)
    return sick


def spoil_index(disk: SimulatedDisk, fault: FaultPlan) -> Sick | None:
    """Damage an index of aborted transactions: whoever has it open reads something else from now on."""
    indexes = sorted(one for one in _with_aborted(disk) if one[0][0] not in INTERNAL)
    if not indexes:
        return None
    place, path, size = indexes[fault.count % len(indexes)]
    inode, position = disk.inode(path), int(size * fault.amount)
    if fault.count % 4 == 0:
        # Never to nothing: with the checkpoint lost, too, that is a folder of Kafka without aborted transactions.
        inode.truncate(max(1, position))
    elif fault.count % 4 == 1:
        inode.content[position] ^= 1 << fault.count % 8
    else:
        for at in range(PRODUCER_AT, size, ENTRY_BYTES):
            inode.content[at] ^= 1
    return Sick(place, path)


def _is_meant(fault: FaultPlan, topic: str) -> bool:
    if fault.operation == ANY:
        return topic not in INTERNAL or fault.count % 4 == 0
    return (topic in INTERNAL) == (fault.operation == OURS)


def _wrong(content: bytearray) -> None:
    """All entries of an index lead elsewhere, or are too young."""
    for at in range(3, len(content), 4):
        content[at] ^= 4


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


def _of_several_segments(disk: SimulatedDisk) -> Iterator[tuple[Place, str, int]]:
    """Folders of logs, and how many segments each has: where there is one alone, its indexes are not looked at."""
    for folder in disk.list(""):
        topic, _, index = folder.rpartition("-")
        segments = sum(name.endswith(".log") for name in disk.list(folder)) if topic in TOPICS else 0
        if segments > 1:
            yield (topic, int(index)), folder, segments


def _with_aborted(disk: SimulatedDisk) -> Iterator[tuple[Place, str, int]]:
    """Indexes of aborted transactions that have entries, and their sizes."""
    for folder in disk.list(""):
        topic, _, index = folder.rpartition("-")
        for name in disk.list(folder) if topic in TOPICS else ():
            if name.endswith(ABORTED) and (size := len(disk.inode(f"{folder}/{name}").content)):
                yield (topic, int(index)), f"{folder}/{name}", size


def wrong_patients(node: Node, sick: Sequence[Sick]) -> Iterator[str]:
    """Logs that are out of use, and are not spoilt: an index is made anew."""
    places = [one.place for one in sick if one.ending != ABORTED and not one.path.endswith(ABORTED)]
    for partition in node.services.topics.offline():
        if (partition.topic, partition.index) not in places:
            yield f"{partition.topic}-{partition.index} is offline, and {places} are spoilt"
