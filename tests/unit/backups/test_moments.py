"""A moment is the data folder as it was, byte for byte, whatever happens to its files before they are linked."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from broker.backups.copying import copy
from broker.backups.manifest import Head
from broker.backups.restoring import restore
from broker.backups.source import of_moment
from broker.backups.target import Target
from broker.config.topic_config import TopicConfig
from broker.disk.local_files import LocalFiles
from broker.disk.pinning import Pin
from broker.offline.untouched import UntouchedFiles
from broker.process.environment import RealEnvironment, boot_id
from broker.upkeep.pinned_moments import ANOTHER_BOOT, PINS_FOLDER, PinnedMoments, State
from storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.data_folder import FORMAT_VERSION, read_format
from storage.metadata_snapshots import SnapshotFolder, SnapshotId
from storage.moment import Moment, cut_aborted
from storage.producers.aborted import AbortedTransaction
from storage.producers.aborted_checkpoint import parsed, text_of
from storage.recovery import Recovery
from storage.retention import enforce_retention
from storage.segment_log import SegmentLog
from tests.harness.read_committed_oracle import Seen
from tests.unit.backups.world import World
from tests.unit.partition.rig import NOW_MS, SMALL_SEGMENTS, Rig, plain
from tests.unit.partition.test_compaction import COMPACTED, compact_all

Meanwhile = Callable[[World], None]


def nothing(world: World) -> None:
    """It goes on when the files are linked."""


def appends(world: World) -> None:
    """Into the same segment, and markers into the same index of aborted transactions."""
    world.rigs["t-0"].end(7, 0, commit=False, version=0)
    world.rigs["t-0"].flush()
    world.keys(2, 1)


def rolls(world: World) -> None:
    world.rigs["t-0"].end(7, 0, commit=True, version=0)
    for number in range(12):
        world.transaction(commit=number % 2 > 0)


def rolls_without_records(world: World) -> None:
    """As compaction does, which never touches the active segment."""
    for rig in world.rigs.values():
        assert isinstance(rig.log, SegmentLog)
        rig.log.roll()


def is_retained(world: World) -> None:
    rolls(world)
    log = world.rigs["t-0"].log
    assert isinstance(log, SegmentLog)
    before = log.start_offset
    while enforce_retention(log, NOW_MS, log.end_offset):
        pass
    assert log.start_offset > before


def is_compacted(world: World) -> None:
    """Twice: once of what was there, once of what came later, which makes superfluous what was there."""
    for seed in (3, 4):
        assert compact_all(world.rigs["c-0"])
        world.keys(seed)


def writes_snapshots(world: World) -> None:
    """So many that those of the moment go."""
    for _ in range(5):
        rolls_once(world)
        world.rigs["t-0"].partition.derived.snapshot()


def rolls_once(world: World) -> None:
    rig = world.rigs["t-0"]
    rig.produce(plain(b"x" * 500))
    rig.flush()


def loses_a_topic(world: World) -> None:
    """And another one gets its name."""
    world.rigs["t-0"].log.abandon()
    world.files.rename("t-0", "t-0.00-delete")
    world.rigs["t-0"] = world.rig("t-0", SMALL_SEGMENTS)
    world.rigs["t-0"].produce(plain(b"of another topic"))
    world.rigs["t-0"].flush()
    world.rigs["t-0"].partition.derived.snapshot()
    world.files.delete_folder("t-0.00-delete")


def has_another_epoch(world: World) -> None:
    world.rigs["t-0"].log.append(plain(b"x"), leader_epoch=9)
    world.rigs["t-0"].flush()


def deletes_records(world: World) -> None:
    world.rigs["t-0"].partition.delete_records(5)


MEANWHILE = [
    nothing,
    appends,
    rolls,
    is_retained,
    is_compacted,
    writes_snapshots,
    loses_a_topic,
    has_another_epoch,
    deletes_records,
]


async def backed_up(
    world: World, tmp_path: Path, before_copying: Meanwhile = nothing
) -> tuple[dict[str, list[Seen]], Path, Path]:
    """(what readers saw, a copy of the folder of that moment, a data folder made of the backup)."""
    environment = RealEnvironment(world.files)
    try:
        pins = world.pins(environment)
        seen = world.readers_see()
        shutil.copytree(world.root, tmp_path / "then")
        made = await pins.begin()
        while made.state is State.LINKING:
            await asyncio.sleep(0)
        assert (made.state, made.reason) == (State.READY, "")
        before_copying(world)
        target, source = Target(str(tmp_path / "kept")), of_moment(pins.folder(made.id))
        target.prepare(source.whose)
        head = Head("first", 0, "cluster", 1, source.life, True)
        copied = copy(source, target, head, lambda done, total: None, whole=False)
        assert await pins.release(made.id) and not await pins.release(made.id)
        restore(target, copied.manifest, str(tmp_path / "again"), lambda done, total: None)
        return seen, tmp_path / "then", tmp_path / "again"
    finally:
        environment.close()


def contents(folder: Path) -> dict[str, bytes]:
    """Of a log's folder, without what says less when it is missing, and what is no longer part of the log."""
    left_out = ("compaction-checkpoint", ".deleted")
    return {one.name: one.read_bytes() for one in folder.iterdir() if not one.name.endswith(left_out)}


@pytest.mark.parametrize("when", ["at once", "after a look at the folder", "half way", "before it is copied"])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_the_copy_is_of_the_moment(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile, when: str
) -> None:
    if when == "before it is copied":
        seen, then, again = asyncio.run(backed_up(world, tmp_path, meanwhile))
    else:
        happens(meanwhile, world, when, monkeypatch)
        seen, then, again = asyncio.run(backed_up(world, tmp_path))
    assert not list((world.root / PINS_FOLDER).iterdir())
    for folder in ("t-0", "c-0"):
        assert contents(again / folder) == contents(then / folder), f"{folder}, {meanwhile.__name__}"
    copied = LocalFiles(str(again))
    try:
        for name, config in (("t-0", SMALL_SEGMENTS), ("c-0", COMPACTED)):
            log = SegmentLog.open(copied, name, config, now_ms=lambda: NOW_MS, recovery=Recovery(recovery_point=1))
            rig = Rig(log=log, config=TopicConfig(log=config))
            rig.flush()
            assert log.recovery_notes == []
            assert rig.consume(log.start_offset) == seen[name]
            log.abandon()
    finally:
        copied.close()


def happens(meanwhile: Meanwhile, world: World, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the thread that links: the loop stands still, so that it is as if it were on the loop."""
    pinning = world.files.pinning
    left = [meanwhile]
    if when == "at once":
        link_all = pinning.link_all

        def later(pin: Pin) -> None:
            left.pop()(world)
            link_all(pin)

        monkeypatch.setattr(pinning, "link_all", later)
        return
    names = Pin.names

    def looked(pin: Pin, folder: str) -> list[str]:
        found = names(pin, folder)
        if left and (when != "half way" or folder == "c-0"):
            left.pop()(world)
        return found

    monkeypatch.setattr(Pin, "names", looked)


@pytest.mark.parametrize(
    "meanwhile", [nothing, appends, rolls, rolls_without_records, is_retained, is_compacted, deletes_records]
)
def test_what_was_noted_ahead_is_of_the_moment(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile
) -> None:
    """Whatever happens to a log between the first look and the turn that counts: the copy is of that turn."""
    left, look_ahead = [meanwhile], PinnedMoments._look_ahead

    async def looked(pins: PinnedMoments) -> object:
        found = await look_ahead(pins)
        left.pop()(world)
        shutil.rmtree(tmp_path / "then")
        shutil.copytree(world.root, tmp_path / "then", ignore=shutil.ignore_patterns(PINS_FOLDER))
        return found

    monkeypatch.setattr(PinnedMoments, "_look_ahead", looked)
    _, then, again = asyncio.run(backed_up(world, tmp_path))
    for folder in ("t-0", "c-0"):
        assert contents(again / folder) == contents(then / folder), f"{folder}, {meanwhile.__name__}"
    points = read_offsets(UntouchedFiles(str(again)), LOG_START_OFFSETS)
    assert points.get(("t", 0), 0) == world.rigs["t-0"].log.start_offset


def test_a_start_on_the_copy_believes_no_more_than_what_was_synced(world: World, tmp_path: Path) -> None:
    """Nor that the page cache of its broker is still there."""
    for rig in world.rigs.values():
        rig.produce(plain(b"not synced", key=b"k"))
    wanted = {("t", 0): world.rigs["t-0"].log, ("c", 0): world.rigs["c-0"].log}
    points = {place: log.recovery_point for place, log in wanted.items()}
    assert all(point < wanted[place].end_offset for place, point in points.items())
    _, _, again = asyncio.run(backed_up(world, tmp_path))
    copied = UntouchedFiles(str(again))
    assert {place: read_offsets(copied, RECOVERY_POINTS).get(place, 0) for place in wanted} == points
    assert read_format(copied) == (FORMAT_VERSION, ANOTHER_BOOT, False) and boot_id() != ANOTHER_BOOT


def test_a_log_that_could_not_be_opened_is_copied_as_it_is(world: World, tmp_path: Path) -> None:
    world.offline = ["damaged-0"]
    (world.root / "damaged-0").mkdir()
    for name in ("00000000000000000000.log", "00000000000000000007.log", "leader-epoch-checkpoint"):
        (world.root / "damaged-0" / name).write_bytes(b"?" * 99)
    _, then, again = asyncio.run(backed_up(world, tmp_path))
    assert contents(again / "damaged-0") == contents(then / "damaged-0") and len(contents(again / "damaged-0")) == 3


def test_aborted_transactions_that_came_later_are_not_promised() -> None:
    """Nor those of a segment that is not there: the index would be made anew, with a walk over the whole log."""
    entries = [AbortedTransaction(1, at, at + 5, at).pack() for at in (0, 10, 20)]
    moment = Moment(0, 0, 16, 4, 100, 0, 0)
    whole = text_of({0: (7, 1), 4: (3, crc32c(b"".join(entries))), 30: (1, 2)})
    text, kept = cut_aborted(whole, b"".join(entries), moment)
    assert kept == b"".join(entries[:2])
    assert parsed((text or b"").decode()) == {0: (7, 1), 4: (2, crc32c(kept))}
    assert cut_aborted(whole, b"", moment) == (text_of({0: (7, 1)}), b"")
    assert cut_aborted(text, kept, moment) == (text, kept), "what is of the moment stays as it is"
    assert cut_aborted(b"torn", kept, moment) == (None, kept) and cut_aborted(None, kept, moment) == (None, kept)


def test_snapshots_of_the_metadata_that_are_later_are_left_out(world: World, tmp_path: Path) -> None:
    end = world.rigs["t-0"].log.end_offset
    snapshots = SnapshotFolder(world.files, "t-0")
    for offset in (1, end, end + 1):
        snapshots.write(SnapshotId(offset, 0), [b"x"])
    _, _, again = asyncio.run(backed_up(world, tmp_path))
    found = [one.name for one in sorted((again / "t-0").glob("*.checkpoint"))]
    assert found == [SnapshotId(1, 0).file_name, SnapshotId(end, 0).file_name]


def test_where_links_cannot_be_made_it_is_said_and_the_broker_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link", source)

    monkeypatch.setattr("broker.disk.pinning.os.link", no_links)

    async def story() -> None:
        environment = RealEnvironment(world.files)
        pins = world.pins(environment)
        happens(is_compacted, world, "half way", monkeypatch)
        for _ in range(2):
            made = await pins.begin()
            while made.state is State.LINKING:
                await asyncio.sleep(0)
            assert made.state is State.FAILED and "one file system" in made.reason
            await pins.release(made.id)
        environment.close()

    asyncio.run(story())
    world.keys(5)
