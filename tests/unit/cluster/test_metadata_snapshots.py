"""Snapshots of the metadata (KIP-630): a start reads what there is, not all there was."""

import asyncio
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordination.cluster import Beginning
from broker.node import Node
from coordinator.cluster.coordinator import Registration
from coordinator.cluster.framing import framed
from coordinator.cluster.image import ClusterImage
from coordinator.cluster.records import ConfigRecord, NoOpRecord, PartitionRecord
from coordinator.cluster.snapshot import freeze, snapshot_batches, thaw
from coordinator.machine import Record
from protocol.codec import decode, read_metadata_frame
from protocol.messages.topics import CreatePartitionsTopic, DeleteTopicState
from protocol.records.batch import headers_in
from storage.metadata_snapshots import SnapshotFolder, SnapshotId, checked
from storage.steps import finish, never
from tests.harness import jars
from tests.harness.simulated_files import SimulatedFiles
from tests.harness.turns import Turns
from tests.unit.broker.test_restarts import SimulatedDisk, life
from tests.unit.cluster.cluster_rig import ClusterRig, image_of, topic, with_node
from tests.unit.cluster.test_cluster_log import STEPS, do, register
from tests.unit.cluster.test_wide_topics import built, grow

FOLDER = "__cluster_metadata-0"
NO_ID = bytes(16)
LATEST_ONLY = {"metadata_max_retention_bytes": "0"}


def snapshot_of(image: ClusterImage, leaving: set[bytes] | None = None) -> Beginning:
    frozen = freeze(image, image.removed if leaving is None else leaving)
    data = b"".join(snapshot_batches(frozen, 3))
    thaw(image, frozen, taken=True)
    contents = finish(checked(data, never))
    assert contents.damage is None
    return Beginning(frozen.end_offset, 3, contents.batches)


def loaded(snapshot: Beginning) -> ClusterRig:
    rig = ClusterRig()
    for entry in snapshot.entries():
        rig.machine.replay(entry)
    return rig


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_snapshot_holds_what_was_live(steps: list[tuple[str, str, int]]) -> None:
    rig = ClusterRig()
    register(rig)
    for step in steps:
        do(rig, step)
    found = loaded(snapshot_of(rig.machine.image)).machine
    assert image_of(found) == image_of(rig.machine)
    assert found.image.last_offset == rig.machine.image.last_offset
    for image in (found.image, rig.machine.image):
        assert image.registration == rig.machine.image.registration and image.decided_features


@settings(max_examples=20, deadline=None)
@given(STEPS)
def test_a_snapshot_cut_anywhere_holds_whole_topics_only(steps: list[tuple[str, str, int]]) -> None:
    """What a repair takes of a damaged one: a topic with some of its partitions would have the others' folders
    deleted."""
    rig = ClusterRig()
    register(rig)
    for step in steps:
        do(rig, step)
    whole = rig.machine.image
    frozen = freeze(whole, ())
    entries = list(Beginning(frozen.end_offset, 3, list(snapshot_batches(frozen, 3))).entries())
    for count in range(len(entries) + 1):
        made: list[Record] = [Record(None, one.value) for one in entries[:count]]
        rig = ClusterRig()
        rig.log.append(made, stamp=None, now_ms=0) if made else None
        cut = Beginning(frozen.end_offset, 3, [batch for _, batch in rig.log.batches], is_cut=True)
        for name, one in loaded(cut).machine.image.topics.items():
            assert (one.partition_count, one.configs) == (
                whole.topics[name].partition_count,
                whole.topics[name].configs,
            )


@settings(max_examples=40, deadline=None)
@given(STEPS, STEPS, st.integers(0, 40))
def test_what_changes_while_it_is_written_is_not_in_it(
    steps: list[tuple[str, str, int]], more: list[tuple[str, str, int]], at: int
) -> None:
    rig = ClusterRig()
    register(rig)
    for step in steps:
        do(rig, step)
    before = image_of(rig.machine)
    frozen = freeze(rig.machine.image, set(rig.machine.image.removed))
    batches = []
    for number, batch in enumerate(snapshot_batches(frozen, 3)):
        batches.append(batch)
        if number == at % 10:
            for step in more:
                do(rig, step)
    thaw(rig.machine.image, frozen, taken=True)
    assert image_of(loaded(Beginning(frozen.end_offset, 3, batches)).machine) == before
    assert rig.machine.image.record_bytes == 0 or rig.machine.image.last_offset >= frozen.end_offset


def test_a_snapshot_is_of_topics_as_they_were_before_each_kind_of_change() -> None:
    def one_more(rig: ClusterRig) -> object:
        return rig.grow(CreatePartitionsTopic(name="t", count=3, assignments=None))

    def many_more(rig: ClusterRig) -> object:
        return grow(rig, "t", 90, built(rig, "t", 90))

    def other_settings(rig: ClusterRig) -> None:
        do(rig, ("alter", "t", 7))

    for change in (one_more, many_more, other_settings):
        rig = ClusterRig()
        register(rig)
        rig.create(topic("t", 2, configs={"retention.ms": "5"}))
        before = image_of(rig.machine)
        frozen = freeze(rig.machine.image, ())
        change(rig)
        assert image_of(rig.machine)["topics"] != before["topics"]
        batches = list(snapshot_batches(frozen, 3))
        assert image_of(loaded(Beginning(frozen.end_offset, 3, batches)).machine) == before


async def snapshot(node: Node) -> None:
    await node.services.topics.snapshots.take()


async def create(node: Node, name: str, partitions: int = 1) -> None:
    (result,) = await node.services.topics.create([topic(name, partitions)])
    assert result.error_code == 0


async def delete(node: Node, name: str) -> None:
    (result,) = await node.services.topics.delete([DeleteTopicState(name=name, topic_id=NO_ID)])
    assert result.error_code == 0


def ids(files: SimulatedFiles) -> list[SnapshotId]:
    return SnapshotFolder(files, FOLDER).ids()


def segments(files: SimulatedFiles) -> list[int]:
    return [int(name[:20]) for name in files.list(FOLDER) if name.endswith(".log")]


def kept(files: SimulatedFiles) -> dict[str, bytes]:
    """What is in the folder, but for what was given up."""
    names = [name for name in files.list(FOLDER) if not name.endswith(".deleted")]
    return {name: files.open(f"{FOLDER}/{name}").read(0, 1 << 20) for name in names}


def names(node: Node) -> set[str]:
    return {one.name for one in node.services.topics.all()}


async def ten_topics(node: Node) -> None:
    for number in range(10):
        await create(node, f"t{number}", 2)


def test_a_start_uses_the_snapshot_without_the_earlier_log() -> None:
    files = SimulatedFiles()
    seen: list[int] = []

    async def shorten(node: Node) -> None:
        await ten_topics(node)
        await snapshot(node)
        seen.append(node.services.cluster.partition.end_offset)
        await create(node, "later")
        await snapshot(node)
        seen.append(node.services.cluster.partition.end_offset)

    life(files, shorten, **LATEST_ONLY, log_segment_delete_delay_ms="0")
    assert [one.end_offset for one in ids(files)] == seen[1:]
    assert segments(files) == seen[1:]

    async def knows_all(node: Node) -> None:
        assert names(node) == {f"t{number}" for number in range(10)} | {"later"}
        assert node.services.cluster.partition.log_start_offset == seen[1]
        assert node.services.epoch == 1
        assert node.services.cluster.image.record_bytes < 400, "what was said since"

    life(files, knows_all)


def test_what_is_said_while_a_snapshot_is_written_is_in_a_segment_behind_it() -> None:
    files = SimulatedFiles()

    async def story(node: Node) -> None:
        await create(node, "before")
        await asyncio.gather(snapshot(node), create(node, "meanwhile"))
        (one,) = ids(files)
        assert one.end_offset in segments(files)

    life(files, story)


def test_snapshots_are_kept_as_long_as_kafka_keeps_them() -> None:
    """All of them while they are young and small; with the oldest goes the log before the next one."""
    files = SimulatedFiles()

    async def three(node: Node) -> None:
        for name in ("a", "b", "c"):
            await create(node, name)
            await snapshot(node)
        assert node.services.cluster.partition.log_start_offset == 0

    life(files, three)
    kept = ids(files)
    assert len(kept) == 3

    async def one_more(node: Node) -> None:
        await create(node, "d")
        await snapshot(node)
        assert node.services.cluster.partition.log_start_offset == ids(files)[0].end_offset

    taken = [name for name in files.list(FOLDER) if name.endswith((".log", ".checkpoint"))]
    size_bytes = sum(files.open(f"{FOLDER}/{name}").size() for name in taken)
    life(files, one_more, metadata_max_retention_bytes=str(size_bytes))
    assert 1 < len(ids(files)) < 4 and ids(files)[0] in kept

    async def old_ones_leave(node: Node) -> None:
        for name in ("e", "f"):
            await create(node, name)
            await snapshot(node)
        assert len(ids(files)) == 1

    files = SimulatedFiles()
    life(files, old_ones_leave, metadata_max_retention_ms="0")


def test_an_old_snapshot_that_cannot_be_deleted_is_named_and_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()

    async def story(node: Node) -> None:
        await create(node, "a")
        await snapshot(node)
        stays = SnapshotFolder(files, FOLDER).path(ids(files)[0])
        files.fault = lambda operation, path: OSError(5, "broken") if (operation, path) == ("delete", stays) else None
        await create(node, "b")
        await snapshot(node)
        assert len(ids(files)) == 2 and "an old metadata snapshot cannot be deleted" in caplog.text

    life(files, story, metadata_max_retention_ms="0")


def test_a_snapshot_is_due_by_bytes_or_time() -> None:
    files = SimulatedFiles()

    async def by_bytes(node: Node) -> None:
        snapshots = node.services.topics.snapshots
        assert not snapshots.is_due()
        await ten_topics(node)
        assert snapshots.is_due()
        files.fault = lambda operation, path: OSError(5, "broken") if path.endswith(".checkpoint") else None
        with pytest.raises(OSError, match="broken"):
            await snapshots.keep_up()
        files.fault = None
        assert snapshots.is_due() and ids(files) == [] and not snapshots._known, "what was not written counts as none"
        await snapshots.keep_up()
        assert not snapshots.is_due() and len(ids(files)) == 1

    life(files, by_bytes, metadata_log_max_record_bytes_between_snapshots="1500")

    async def by_time(node: Node) -> None:
        snapshots, environment = node.services.topics.snapshots, node.environment
        environment._wall_ms += 1_000_000  # type: ignore[attr-defined]
        assert snapshots.is_due()
        await snapshots.keep_up()
        environment._wall_ms += 1_000_000  # type: ignore[attr-defined]
        assert not snapshots.is_due(), "nothing was said since"

    life(files, by_time, metadata_log_max_snapshot_interval_ms="1000000")

    async def never_by_time(node: Node) -> None:
        node.environment._wall_ms += 1 << 40  # type: ignore[attr-defined]
        assert not node.services.topics.snapshots.is_due()

    life(files, never_by_time, metadata_log_max_snapshot_interval_ms="0")


OF_ANOTHER_KIND = ConfigRecord(resource_type=64, resource_name="m", name="interval.ms", value="5")


@pytest.mark.parametrize(
    "unknown", [bytes([1, 90, 0, 1, 2, 3]), framed([OF_ANOTHER_KIND])[0].value], ids=["a kind", "settings of a kind"]
)
def test_no_snapshot_is_made_of_what_is_not_understood(unknown: bytes) -> None:
    """A later version wrote a kind of record that the image knows nothing of: without the log it would be lost."""
    files = SimulatedFiles()

    async def from_the_future(node: Node) -> None:
        image, end_offset = node.services.cluster.image, node.services.cluster.partition.end_offset
        image.replay(end_offset, framed([NoOpRecord()])[0].value)
        assert node.services.topics.snapshots.is_due()
        image.replay(end_offset, unknown)
        assert not node.services.topics.snapshots.is_due()

    life(files, from_the_future, metadata_log_max_record_bytes_between_snapshots="1")


def test_in_memory_the_log_is_cut_without_a_snapshot() -> None:
    async def story(services) -> None:  # type: ignore[no-untyped-def]
        log = services.cluster.partition.log
        for number in range(20):
            await services.topics.create([topic(f"t{number}", 3)])
        before = log.size_bytes
        await services.topics.snapshots.take()
        assert log.size_bytes < before / 10 and log.start_offset == log.end_offset
        await services.topics.create([topic("later", 3)])
        assert len(services.topics.all()) == 21

    with_node(story)


def test_many_partitions_are_written_down_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    files = SimulatedFiles()

    async def write(node: Node) -> None:
        turns = Turns(node.environment)
        for number in range(3):
            await create(node, f"t{number}", 100)
        turns.waited = 0
        await snapshot(node)
        (one,) = ids(files)
        data = files.open(f"{FOLDER}/{one.file_name}").read(0, 1 << 20)
        batches = list(headers_in(data))
        assert max(header.records_count for _, header in batches) < 20
        assert turns.waited > len(batches) / 30, "a look at the clock after each batch"

    monkeypatch.setattr("coordinator.cluster.snapshot.BATCH_BYTES", 200)
    life(files, write)
    monkeypatch.undo()

    holder = SimpleNamespace()
    turns = Turns(holder)
    monkeypatch.setattr(SimulatedDisk, "time_slice", lambda self: holder.time_slice())
    monkeypatch.setattr("broker.coordination.cluster.STEP_RECORDS", 1)

    async def read(node: Node) -> None:
        assert len(names(node)) == 3

    before = turns.waited
    life(files, read)
    assert turns.waited - before > 300 / 30, "and after each record that is read"


@pytest.mark.parametrize("single", [True, False])
def test_kafka_reads_a_snapshot(tmp_path: Path, single: bool) -> None:
    """DumpLogSegments with its metadata decoder: header, every record, footer."""
    try:
        class_path = jars.class_path("kafka")
    except jars.JarsMissing as reason:
        pytest.skip(f"needs Java and Kafka's jars: {reason}")
    rig = ClusterRig()
    steps = ("register", "", 0), ("create", "a", 2), ("alter", "a", 5), ("ids", "", 0), ("create", "b", 1)
    for step in (*steps, ("allow", "a", 3), ("delete", "b", 0)):
        do(rig, step)
    one = SnapshotId(rig.machine.image.last_offset + 1, 3)
    path = tmp_path / one.file_name
    frozen = freeze(rig.machine.image, rig.machine.image.removed, single=single)
    path.write_bytes(b"".join(snapshot_batches(frozen, 3)))
    command = [str(jars.java()), "-Xmx128m", "-cp", class_path, "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, "--cluster-metadata-decoder", "--files", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    topics = "TOPIC", "PARTITION", "REMOVE_TOPIC"
    for kind in (*topics, "FEATURE_LEVEL", "REGISTER_BROKER", "CONFIG", "PRODUCER_IDS", "ACCESS_CONTROL_ENTRY"):
        assert f'"type":"{kind}_RECORD"' in done.stdout, kind
    assert f"Snapshot end offset: {one.end_offset}, epoch: 3" in done.stdout
    assert "SnapshotHeader" in done.stdout and "SnapshotFooter" in done.stdout
    assert "isvalid: false" not in done.stdout and "Could not" not in done.stdout + done.stderr


def test_partitions_in_a_snapshot_are_in_the_folder_of_their_broker() -> None:
    """KIP-858."""
    rig = ClusterRig()
    folder = bytes(range(16))
    rig.ask(lambda machine, ticket: machine.register(ticket, Registration(1, bytes(16), 1, "r1", directory=folder)))
    do(rig, ("create", "t", 2))
    values = [one.value for one in snapshot_of(rig.machine.image).entries() if one.value is not None]
    heads = [(read_metadata_frame(frame), frame) for frame in values]
    found = [decode(PartitionRecord, head[1], frame, head[-1])[0] for head, frame in heads if head[0] == 3]
    assert [one.directories for one in found] == [[folder]] * 2
