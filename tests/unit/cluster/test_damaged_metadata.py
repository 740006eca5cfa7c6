"""Snapshots of the metadata where a crash comes between, or where one is damaged: nothing acknowledged is lost."""

import asyncio
import logging
from random import Random

import pytest

from broker.node import Node
from protocol.records.batch import headers_in
from storage.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, UnreadableDataFolder
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_restarts import life
from tests.unit.cluster.test_metadata_snapshots import (
    FOLDER,
    LATEST_ONLY,
    NO_ID,
    create,
    delete,
    ids,
    kept,
    names,
    segments,
    snapshot,
    ten_topics,
)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_acknowledged_is_lost_whenever_a_crash_comes(seed: int) -> None:
    """The disk is looked at before each of its operations, as a kill leaves it and as a power cut does."""
    files, random = SimulatedFiles(), Random(seed)
    there, gone, given = set[str](), set[str](), [-1, -1]
    moments: list[tuple[SimulatedFiles, frozenset[str], frozenset[str], tuple[int, ...]]] = []

    def look(operation: str, path: str) -> None:
        if operation not in ("read", "open"):
            for disk in (files.kill(), files.crash(random)):
                moments.append((disk, frozenset(there), frozenset(gone), tuple(given)))

    async def busy(node: Node) -> None:
        given[0] = node.services.epoch
        files.fault = look
        for number in range(3):
            name = f"{node.services.epoch}.{number}"
            await create(node, name, 2)
            there.add(name)
            if number:
                victim = sorted(there)[0]
                there.discard(victim)  # neither is certain until it is answered
                await delete(node, victim)
                gone.add(victim)
            while (taken := node.services.producer_ids.take()) is None:
                await asyncio.sleep(0)
            given[1] = taken
            await snapshot(node)
            partition = node.services.cluster.partition
            creating = asyncio.create_task(create(node, f"{name}.late"))
            while partition.end_offset == partition.high_watermark and not creating.done():
                await asyncio.sleep(0)
            await snapshot(node)  # of what is not durable yet
            await creating
            there.add(f"{name}.late")
        files.fault = None

    few = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    for _ in range(2):
        life(files, busy, **LATEST_ONLY, **few, log_segment_delete_delay_ms="0")
    assert len(ids(files)) == 1 and segments(files)[0] > 0

    for moment in moments:
        check_what_is_left(*moment)


def check_what_is_left(
    disk: SimulatedFiles, known: frozenset[str], unknown: frozenset[str], given: tuple[int, ...]
) -> None:
    async def as_it_was(node: Node) -> None:
        found = names(node)
        assert known <= found and not unknown & found
        assert node.services.epoch > given[0]
        while (taken := node.services.producer_ids.take()) is None:
            await asyncio.sleep(0)
        assert taken > given[1]

    life(disk, as_it_was, boot="later", stop=False)
    strays = [name for name in disk.list("") if name.endswith("-stray") and NO_ID.hex() not in name]
    assert not strays, "it is known whose they were, where that could be read"
    assert not [name for name in disk.list(FOLDER) if name.endswith(".checkpoint.tmp")]


def test_a_damaged_snapshot_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """For an older one, or for the log since its beginning."""
    files = SimulatedFiles()

    async def two(node: Node) -> None:
        await ten_topics(node)
        await snapshot(node)
        await create(node, "later")
        await snapshot(node)

    async def knows_all(node: Node) -> None:
        assert names(node) == {f"t{number}" for number in range(10)} | {"later"}

    life(files, two)
    for number, one in enumerate(reversed(ids(files)), 1):
        files.damage(f"{FOLDER}/{one.file_name}", 300)
        with caplog.at_level(logging.ERROR):
            caplog.clear()
            life(files, knows_all)
        assert len([one for one in caplog.records if "snapshot of the metadata is damaged" in one.msg]) == number


def test_a_damaged_snapshot_that_tells_of_more_than_the_log_is_not_passed_over() -> None:
    """The log begins at 0 and would do, if its tail were not lost, and with it what is known of its length."""
    files = SimulatedFiles()

    async def two(node: Node) -> None:
        await ten_topics(node)
        await snapshot(node)

    async def unreachable(node: Node) -> None:
        raise AssertionError("it started")

    life(files, two)
    (one,) = ids(files)
    files.damage(f"{FOLDER}/{one.file_name}", 300)
    log = files.open(f"{FOLDER}/{0:020d}.log")
    *_, (position, _) = headers_in(log.read(0, log.size()))
    log.truncate(position)
    for name in (RECOVERY_POINTS, CLEAN_SHUTDOWN, f"{FOLDER}/{one.end_offset:020d}.log"):
        files.lose(name)
    with pytest.raises(UnreadableDataFolder, match=one.file_name):
        life(files, unreachable)


@pytest.mark.parametrize("boot", ["b", "later"])
def test_a_gap_before_an_empty_segment_is_not_the_end_of_the_metadata(boot: str) -> None:
    """The log has lost its tail, and with the snapshot what else told of it, but for the name of its last segment."""
    files, left = SimulatedFiles(), list[set[str]]()

    async def two(node: Node) -> None:
        await ten_topics(node)
        await snapshot(node)

    async def unreachable(node: Node) -> None:
        raise AssertionError("it started")

    async def goes_on(node: Node) -> None:
        left.append(names(node))

    life(files, two)
    (one,) = ids(files)
    files.damage(f"{FOLDER}/{one.file_name}", 300)
    log = files.open(f"{FOLDER}/{0:020d}.log")
    *_, (position, _) = headers_in(log.read(0, log.size()))
    log.truncate(position)
    for name in (RECOVERY_POINTS, CLEAN_SHUTDOWN):
        files.lose(name)
    assert one.end_offset in segments(files) and len(segments(files)) == 2
    for _ in range(2):
        with pytest.raises(UnreadableDataFolder, match=rf"{one.end_offset}.* --repair {FOLDER}"):
            life(files, unreachable, boot=boot)
        assert not [name for name in files.list("") if name.endswith("-stray")]
    life(files, goes_on, boot=boot, tallystick_repair=FOLDER)
    life(files, goes_on, boot=boot)
    assert len(left) == 2 and left[1] == left[0]


def spoil(files: SimulatedFiles, path: str, how: str) -> None:
    if how == "damaged":
        files.damage(path, 20_000)
    elif how == "lost":
        files.lose(path)
    else:
        file = files.open(path)
        file.truncate(file.size() - 100)
        file.sync()


@pytest.mark.parametrize("how", ["damaged", "lost", "cut short"])
def test_a_repair_starts_without_snapshot_and_log(how: str) -> None:
    files = SimulatedFiles()
    epochs: list[int] = []

    async def many(node: Node) -> None:
        epochs.append(node.services.epoch)
        for number in range(6):
            await create(node, f"t{number}", 60)
        await create(node, "wide", 3)
        await snapshot(node)
        await create(node, "later")
        await snapshot(node)

    life(files, many, **LATEST_ONLY, log_segment_delete_delay_ms="0")
    (one,) = ids(files)
    path = f"{FOLDER}/{one.file_name}"
    spoil(files, path, how)
    before = kept(files)

    async def unreachable(node: Node) -> None:
        raise AssertionError("it started")

    for _ in range(2):
        with pytest.raises(UnreadableDataFolder, match=rf"{FOLDER}/.* --repair {FOLDER}"):
            life(files, unreachable)
        assert kept(files) == before

    left: list[set[str]] = []

    async def goes_on(node: Node) -> None:
        epochs.append(node.services.epoch)
        left.append(names(node))
        for one in node.services.topics.all():
            assert one.name in ("later", "wide") or len(one.partitions) == 60

    life(files, goes_on, tallystick_repair=FOLDER)
    if how == "damaged":
        assert 0 < len(left[0]) < 8
    else:
        assert left[0] == (set() if how == "lost" else left[0])
    assert how == "lost" or files.exists(path + ".damaged")
    known = {name for name in files.list("") if name.endswith("-stray")}
    assert known and not [name for name in files.list("") if name.endswith("-delete")]
    life(files, goes_on)
    life(files, goes_on, boot="later")
    assert left[1:] == left[:1] * 2 and epochs == sorted(set(epochs))


def test_a_log_repair_keeps_everything_in_the_snapshot() -> None:
    files = SimulatedFiles()

    async def two(node: Node) -> None:
        await ten_topics(node)
        await snapshot(node)

    async def knows_all(node: Node) -> None:
        assert names(node) == {f"t{number}" for number in range(10)}
        await create(node, f"t{len(names(node))}")
        await delete(node, "t10")

    life(files, two)
    files.damage(f"{FOLDER}/{0:020d}.log", 400)
    life(files, knows_all)
    life(files, knows_all, tallystick_repair=FOLDER)
    life(files, knows_all)
