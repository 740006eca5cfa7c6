"""Every file of a data folder, damaged in every way while the broker is stopped: whatever the next starts make of it,
all that was acknowledged is served as it was, or that partition alone is refused with a sentence, or the start ends
with one. Nothing wrong is served, and nothing is missing without a word.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import pytest

from broker.node import Node
from broker.partitions.partition import Partition
from coordinator.machine import Marker
from protocol.records.batch import first_corrupt
from storage.checkpoints import UnreadableDataFolder
from storage.log import BEYOND_ALL_OFFSETS, LogDamaged
from storage.steps import finish
from tests.harness.page_cache import Folder, Inode
from tests.harness.read_committed_oracle import Seen, committed_records
from tests.harness.simulated_files import SimulatedFiles
from tests.simulation.broker_process import SmallLogs
from tests.unit.broker.test_restarts import SimulatedDisk, opened
from tests.unit.cluster.test_metadata_snapshots import snapshot
from tests.unit.partition.rig import idempotent, in_transaction

NOW_MS = 1_700_000_000_000
ROUNDS = 12
TOPICS = ("t", "other")
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "tallystick.scrub.io.max.bytes.per.second": "0",
}


class Small(SmallLogs):
    segment_bytes = 1000


def life(files: SimulatedFiles, story: Callable[[Node], None], *, with_snapshot: bool = True) -> None:
    """One life of a node whose partitions are open, up to an orderly end; one `with_snapshot` of the metadata."""

    async def run() -> None:
        environment = SimulatedDisk(files, "boot")
        node = Node(Small(SETTINGS), environment)
        try:
            await node.start()
            for topic in TOPICS:
                await opened(node, topic)
            story(node)
            if with_snapshot:
                await snapshot(node)
            await node.services.group_commit.wait_until_idle()
            await node.stop()
        finally:
            environment.close()

    asyncio.run(run())


def partition_of(node: Node, topic: str) -> Partition:
    partition = node.services.topics.partition(topic, 0)
    assert partition is not None
    return partition


def fill(node: Node) -> None:
    """Committed and aborted transactions, another producer's records among them."""
    for topic in TOPICS:
        partition = partition_of(node, topic)
        for number in range(ROUNDS):
            now_ms = NOW_MS + number
            for producer_id in (1, 2):
                batch = memoryview(in_transaction(producer_id, 0, number, value=b"%d %s" % (number, topic.encode())))
                partition.append(batch, transactional_id="tx", verification=False, now_ms=now_ms)
            for producer_id in (1, 2):
                commit = (number + producer_id) % 2 == 0
                partition.append_marker(Marker(producer_id, 0, commit, 0, 0), now_ms)
            batch = memoryview(
                idempotent(3, 0, number, value=b"%d of %s" % (number, topic.encode()), timestamp_ms=now_ms)
            )
            partition.append(batch, transactional_id=None, now_ms=now_ms)
            partition.log.flush_now()
            partition.committed_moved()


class Known(NamedTuple):
    """What clients can learn of a partition, and why they were refused."""

    records: list[Seen]
    offsets: tuple[int, int]
    epochs: tuple[int, int]
    times: list[int]
    repeated: int
    refused: list[str]


def consumed(partition: Partition, max_bytes: int, refused: list[str]) -> list[Seen]:
    """As a client reads that checks checksums, and goes on behind what is refused."""
    seen: list[Seen] = []
    position = partition.log.start_offset
    while position < partition.last_stable_offset:
        try:
            data = partition.read(position, max_bytes, read_committed=True)
            batches = [bytes(one) for one in data.records]
            if any(first_corrupt(one) is not None for one in batches):
                refused.append("checksum")
                position += 1
                continue
        except (LogDamaged, OSError) as damaged:
            refused.append(str(damaged))
            behind = damaged.next_offset if isinstance(damaged, LogDamaged) else 0
            position = behind if position < behind < BEYOND_ALL_OFFSETS else position + 1
            continue
        assert data.aborted is not None
        found, after = committed_records(batches, data.aborted, position)
        assert after > position, "a reader stands still"
        seen, position = seen + found, after
    return seen


def learned(partition: Partition, max_bytes: int = 1 << 20) -> Known:
    if partition.offline is not None:
        return Known([], (0, 0), (0, 0), [], 0, [str(partition.offline)])
    refused: list[str] = []
    seen = consumed(partition, max_bytes, refused)
    times = []
    for number in range(ROUNDS):
        try:
            found = finish(partition.offset_for_timestamp(NOW_MS + number, read_committed=True))
            times.append(-1 if found is None else found.offset)
        except (LogDamaged, OSError) as damaged:
            refused.append(str(damaged))
    repeat = memoryview(idempotent(3, 0, ROUNDS - 1))
    repeated = partition.append(repeat, transactional_id=None, now_ms=NOW_MS).base_offset
    offsets = partition.log.start_offset, partition.end_offset
    return Known(seen, offsets, partition.log.epoch_end(0), times, repeated, refused)


@cache
def made() -> tuple[SimulatedFiles, dict[str, Known]]:
    """A disk after an orderly end, and what is known of its partitions."""
    files = SimulatedFiles()
    life(files, fill)
    known: dict[str, Known] = {}
    life(files.kill(), lambda node: known.update({topic: learned(partition_of(node, topic)) for topic in TOPICS}))
    assert known["t"].refused == [] and known["t"].offsets == (0, 60) and known["t"].repeated == 59
    assert len([name for name in files.list("t-0") if name.endswith(".log")]) >= 4
    return files, known


def contents(files: SimulatedFiles, path: str) -> bytearray:
    folder, name = files._parent(path)
    node = folder.entries[name]
    assert isinstance(node, Inode)
    return node.content


def emptied(files: SimulatedFiles, path: str) -> None:
    contents(files, path).clear()


def halved(files: SimulatedFiles, path: str) -> None:
    content = contents(files, path)
    del content[len(content) // 2 :]


def doubled(files: SimulatedFiles, path: str) -> None:
    content = contents(files, path)
    content.extend(bytes(content))


def flipped(files: SimulatedFiles, path: str, *, at: float) -> None:
    content = contents(files, path)
    if content:
        content[int((len(content) - 1) * at)] ^= 0x10


def a_folder(files: SimulatedFiles, path: str) -> None:
    folder, name = files._parent(path)
    folder.change({name: Folder()})
    folder.sync()


def of_another(files: SimulatedFiles, path: str) -> None:
    other = path.replace("t-0/", "other-0/") if path.startswith("t-0/") else "t-0/leader-epoch-checkpoint"
    contents(files, path)[:] = contents(files, other if files.exists(other) else "meta.properties")


def unreadable(files: SimulatedFiles, path: str) -> None:
    def fault(operation: str, of: str) -> OSError | None:
        return OSError(errno.EIO, "Input/output error", of) if (operation, of) == ("read", path) else None

    files.fault = fault


WAYS: dict[str, Callable[[SimulatedFiles, str], None]] = {
    "removed": SimulatedFiles.lose,
    "emptied": emptied,
    "halved": halved,
    "doubled": doubled,
    **{f"a bit at {at}": partial(flipped, at=at) for at in (0, 0.3, 0.55, 1)},
    "a folder": a_folder,
    "of another": of_another,
    "unreadable": unreadable,
}
OF_THE_FOLDER = (
    "meta.properties",
    "tallystick.format",
    "tallystick.trust",
    "recovery-point-offset-checkpoint",
    ".kafka_cleanshutdown",
)
OF_A_LOG = (
    "log 0",
    "index 0",
    "timeindex 0",
    "checkpoint -1",
    "snapshot 0",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
OF_SEGMENTS = [f"{suffix} {which}" for suffix in ("log", "index", "timeindex", "txnindex") for which in (0, 2, -1)]
FILES = [
    *OF_THE_FOLDER,
    *(f"__cluster_metadata-0/{name}" for name in OF_A_LOG),
    *(f"t-0/{name}" for name in (*OF_SEGMENTS, "snapshot -1", "aborted-checkpoint", "producers -1", *OF_A_LOG[-2:])),
]


def path_of(files: SimulatedFiles, name: str) -> str:
    folder, _, file = name.rpartition("/")
    if " " not in file:
        return name
    suffix, which = file.split(" ")
    return f"{folder}/{[one for one in files.list(folder) if one.endswith('.' + suffix)][int(which)]}"


def check(got: Known, known: Known) -> None:
    """Nothing wrong; and what is missing was refused."""
    assert [one for one in got.records if one not in known.records] == []
    if not got.refused:
        assert got == known


CASES = [(name, way) for name in FILES for way in WAYS if (name.split(" ")[0], way) != ("t-0/log", "of another")]
"""A log whose batches are whole and have the offsets of those that were there is believed."""


@pytest.mark.parametrize(("name", "way"), CASES)
def test_all_is_served_or_refused_with_a_sentence(name: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    files, known = made()
    files = files.kill()
    path = path_of(files, name)
    WAYS[way](files, path)
    seen: list[dict[str, Known]] = []

    def look(node: Node) -> None:
        for max_bytes in (1 << 20, 1):
            seen.append({topic: learned(partition_of(node, topic), max_bytes) for topic in TOPICS})

    with caplog.at_level(logging.WARNING):
        try:
            life(files, look)
            life(files, look)
        except UnreadableDataFolder as sentence:
            assert path.rpartition("/")[0] in str(sentence) and "\n" not in str(sentence)
            assert name.startswith("__cluster_metadata-0/") or name in OF_THE_FOLDER
            return
    assert not [record for record in caplog.records if record.exc_info]
    for one in seen:
        assert one["other"] == known["other"]
        check(one["t"], known["t"])
        if not one["t"].records:
            assert [record for record in caplog.records if "t" in str(vars(record)["fields"])]
