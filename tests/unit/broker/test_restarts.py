"""What a node leaves behind, and what the next one makes of it: failed syncs, deleted records, quick stops."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import pytest

from broker.config.broker_config import BrokerConfig
from broker.coordination.marker_writer import UncommittedMarkers
from broker.coordination.releases import Releases
from broker.node import Node
from broker.partitions.errors import PartitionError
from broker.partitions.partition import Partition
from broker.process.environment import MonotonicMs, RealEnvironment, WallMs
from protocol.errors import ErrorCode
from protocol.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.topics import CreatableTopic, DeleteTopicState
from protocol.records.record import NewRecord, build_batch
from storage.log import StorageFailed
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.cluster.cluster_rig import handle

T = TypeVar("T")
Story = Callable[[Node], Awaitable[None]]


class SimulatedDisk(RealEnvironment):
    """The world, but for its disk; what may block runs at once."""

    def __init__(self, files: SimulatedFiles, boot: str) -> None:
        super().__init__(files, sync_threads=1)
        self._boot = boot
        self._wall_ms = 1_700_000_000_000

    def wall_ms(self) -> WallMs:
        self._wall_ms += 1
        return WallMs(self._wall_ms)

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self._wall_ms)

    def run_blocking(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(work())
        except OSError as error:
            done.set_exception(error)
        return done

    run_beside = run_blocking

    def boot_id(self) -> str:
        return self._boot


def life(files: SimulatedFiles, story: Story, *, boot: str = "b", stop: bool = True, **settings: str) -> None:
    """One life of a node over a disk; without `stop`, it is killed."""

    async def run() -> None:
        values = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
        values |= {name.replace("_", "."): value for name, value in settings.items()}
        environment = SimulatedDisk(files, boot)
        node = Node(BrokerConfig(values), environment)
        await node.start()
        await asyncio.wait_for(story(node), 10)
        if stop:
            await node.stop()
        else:
            await node._running.housekeeping.stop()  # type: ignore[union-attr]
            node.abandon()
            await asyncio.sleep(0)
        environment.close()

    asyncio.run(run())


async def opened(node: Node, topic: str = "t") -> Partition:
    await node.services.topics.auto_create_all([topic])
    while node.data_folder is not None and node.data_folder.distrusted and node.failure is None:
        await asyncio.sleep(0)
    partition = node.services.topics.partition(topic, 0)
    assert partition is not None
    return partition


def append(partition: Partition, value: bytes) -> "asyncio.Future[None] | None":
    records = build_batch([NewRecord(value=value, timestamp_ms=1)])
    appended = partition.append(memoryview(records), transactional_id=None, now_ms=1)
    return partition.committed(appended.next_offset)


def test_a_restart_after_a_failed_sync_serves_only_durable_records() -> None:
    """The kernel takes the pages of a failed sync for clean; the next life writes them again before it serves them."""
    files = SimulatedFiles()

    async def fails(node: Node) -> None:
        partition = await opened(node)
        await (append(partition, b"acknowledged") or asyncio.sleep(0))
        files.fault = lambda operation, path: (
            OSError("bad sector") if (operation, path[:3]) == ("sync", "t-0") else None
        )
        waiting = append(partition, b"never acknowledged")
        assert waiting is not None
        with pytest.raises(Exception, match="bad sector"):
            await waiting
        assert node.failure is not None

    life(files, fails, stop=False)
    second = files.kill()
    served: list[int] = []

    async def serves(node: Node) -> None:
        served.append((await opened(node)).high_watermark)
        assert node.data_folder is not None and not node.data_folder.distrusted

    life(second, serves, stop=False)
    assert served == [2]
    for drawn in range(10):
        life(second.crash(Random(drawn)), serves, boot="c")
    assert set(served) == {2}


def test_a_deleted_log_that_cannot_be_put_aside_ends_the_broker() -> None:
    """The deletion was answered as if all were well, and a new topic of that name found the old one's folder."""
    files = SimulatedFiles()

    async def story(node: Node) -> None:
        await opened(node)
        files.fault = lambda operation, path: OSError("bad sector") if (operation, path) == ("rename", "t-0") else None
        with pytest.raises(StorageFailed, match="t-0 was deleted"):
            await node.services.topics.delete([DeleteTopicState(name="t")])

    life(files, story, stop=False)

    async def is_gone(node: Node) -> None:
        assert node.services.topics.by_name("t") is None
        partition = await opened(node)
        assert (partition.offline, partition.end_offset) == (None, 0)

    life(files.kill(), is_gone)


def test_a_kill_after_a_failed_sync_changes_nothing() -> None:
    """The thread whose sync has failed says so itself, for the next life to know (decision 0010)."""
    files = SimulatedFiles()

    async def is_killed_first(node: Node) -> None:
        partition = await opened(node)
        await (append(partition, b"acknowledged") or asyncio.sleep(0))
        struck: list[str] = []

        def fault(operation: str, path: str) -> OSError | None:
            if (operation, path[:3]) != ("sync", "t-0"):
                return None
            struck.append(path)
            return OSError("bad sector")

        def work_of_which_nobody_hears(work: Callable[[], object]) -> "asyncio.Future[object]":
            with contextlib.suppress(OSError):
                work()
            return asyncio.get_running_loop().create_future()

        files.fault = fault
        node.environment.run_blocking = work_of_which_nobody_hears  # type: ignore[method-assign, assignment]
        append(partition, b"never acknowledged")
        while not struck:
            await asyncio.sleep(0)
        assert node.failure is None

    life(files, is_killed_first, stop=False)
    second = files.kill()
    served: list[int] = []

    async def serves(node: Node) -> None:
        served.append((await opened(node)).high_watermark)

    life(second, serves, stop=False)
    for drawn in range(10):
        life(second.crash(Random(drawn)), serves, boot="c")
    assert set(served) == {2}


def test_a_failed_sync_in_an_orderly_stop_is_handled() -> None:
    """The next life writes those pages again before it serves them, as after any other (decision 0010)."""
    files = SimulatedFiles()
    nodes: list[Node] = []

    async def fails_at_the_end(node: Node) -> None:
        nodes.append(node)
        await (append(await opened(node), b"acknowledged") or asyncio.sleep(0))
        files.fault = lambda operation, path: (
            OSError("bad sector") if (operation, path[:3]) == ("sync", "t-0") else None
        )

    life(files, fails_at_the_end, tallystick_durability="page-cache")
    assert isinstance(nodes[0].failure, StorageFailed)
    second = files.kill()
    served: list[int] = []

    async def serves(node: Node) -> None:
        served.append((await opened(node)).high_watermark)

    life(second, serves, stop=False, tallystick_durability="page-cache")
    for drawn in range(10):
        life(second.crash(Random(drawn)), serves, boot="c", tallystick_durability="page-cache")
    assert set(served) == {1}


def test_records_that_were_deleted_do_not_come_back() -> None:
    """DeleteRecords is answered when the new beginning is written down, be it that the power goes in that moment."""
    files = SimulatedFiles()
    cut: list[SimulatedFiles] = []

    async def story(node: Node) -> None:
        partition = await opened(node)
        for value in (b"a", b"b", b"c"):
            await (append(partition, value) or asyncio.sleep(0))
        deletion = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        answer = await handle(node.services, DeleteRecordsRequest(topics=[deletion], timeout_ms=1000), 2)
        assert answer.topics[0].partitions[0].low_watermark == 2
        cut.append(files.crash(Random(1)))

    async def later(node: Node) -> None:
        partition = await opened(node)
        assert (partition.log_start_offset, partition.high_watermark) == (2, 3)

    life(files, story)
    life(cut[0], later, boot="c")


def test_a_stop_syncs_only_written_logs() -> None:
    """A hundred partitions of which one was written to: seven syncs each had made a stop take two seconds."""
    files = SimulatedFiles()

    async def story(node: Node) -> None:
        await node.services.topics.create(
            [CreatableTopic(name="wide", num_partitions=100, replication_factor=1, assignments=[], configs=[])]
        )
        await (append(await opened(node, "wide"), b"v") or asyncio.sleep(0))
        files.syncs.clear()

    life(files, story)
    assert len([path for path in files.syncs if path.startswith("wide-")]) < 10
    files.syncs.clear()

    async def nothing(node: Node) -> None:
        await opened(node, "wide")

    life(files, nothing)
    assert not [path for path in files.syncs if path.startswith("wide-")]


def test_a_page_cache_restart_syncs_no_topic_log() -> None:
    files = SimulatedFiles()

    async def story(node: Node) -> None:
        await (append(await opened(node), b"v") or asyncio.sleep(0))

    life(files, story, stop=False, tallystick_durability="page-cache")
    files.syncs.clear()

    async def looks(node: Node) -> None:
        assert (await opened(node)).high_watermark == 1
        assert not [path for path in files.syncs if path.startswith("t-0")]

    life(files, looks, stop=False, tallystick_durability="page-cache")


def test_a_topic_made_with_the_page_cache_outlives_a_power_cut() -> None:
    """What the metadata says is synced before it is answered, however topics are written."""
    files = SimulatedFiles()

    async def makes(node: Node) -> None:
        await opened(node)
        disks.extend(files.crash(Random(seed)) for seed in range(8))

    async def looks(node: Node) -> None:
        assert node.services.topics.by_name("t") is not None

    disks: list[SimulatedFiles] = []
    life(files, makes, stop=False, tallystick_durability="page-cache")
    for disk in disks:
        life(disk, looks, stop=False, tallystick_durability="page-cache")


def test_waits_for_a_deleted_partition_end_at_once() -> None:
    """Producers learn that the topic is gone, and so does a marker, for which nobody polls (I17)."""
    files = SimulatedFiles()

    async def story(node: Node) -> None:
        partition = await opened(node)
        waiting = append(partition, b"v")
        assert waiting is not None
        results: list[ErrorCode] = []
        markers = UncommittedMarkers(Releases(node.environment.time_slice()))
        markers.wait(partition, 1, results.append)
        partition.discard()
        assert results == [ErrorCode.UNKNOWN_TOPIC_ID]
        with pytest.raises(PartitionError):
            await waiting

    life(files, story, stop=False)


def test_deleting_a_topic_with_pending_markers_completes_the_transaction() -> None:
    """The same, from the outside: DeleteTopics answers, and nothing is left waiting."""
    files = SimulatedFiles()

    async def story(node: Node) -> None:
        partition = await opened(node)
        results: list[Any] = []
        markers = UncommittedMarkers(Releases(node.environment.time_slice()))
        markers.wait(partition, partition.end_offset + 1, results.append)
        await node.services.topics.delete([DeleteTopicState(name="t", topic_id=bytes(16))])
        assert results == [ErrorCode.UNKNOWN_TOPIC_ID]

    life(files, story)


def test_a_start_offset_moved_during_writing_is_written_next() -> None:
    """DeleteRecords is answered when its own start is written down, not when one is that began before it."""
    files = SimulatedFiles()
    at_answers: list[bool] = []

    async def story(node: Node) -> None:
        partition = await opened(node)
        for value in (b"a", b"b", b"c"):
            await (append(partition, value) or asyncio.sleep(0))
        assert node.data_folder is not None
        checkpoints, run_at_once = node.services.checkpoints, node.environment.run_blocking
        held = asyncio.Event()

        def run_later(work: Callable[[], Any]) -> "asyncio.Future[Any]":
            async def later() -> Any:
                await held.wait()
                return await run_at_once(work)

            return asyncio.ensure_future(later())

        node.environment.run_blocking = run_later  # type: ignore[method-assign, assignment]
        partition.delete_records(1)
        first = asyncio.ensure_future(checkpoints.write())
        for _ in range(5):
            await asyncio.sleep(0)
        partition.delete_records(2)
        second = asyncio.ensure_future(checkpoints.write())
        await asyncio.sleep(0)
        held.set()
        await asyncio.gather(first, second)
        node.environment.run_blocking = run_at_once  # type: ignore[method-assign]
        at_answers.append(node.data_folder._written[1]["t", 0] == 2)

    life(files, story)
    assert at_answers == [True]


def test_a_bug_in_the_nodes_own_work_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for it, and the node had looked at what it raised: it was said nowhere."""

    async def wrong() -> None:
        await asyncio.sleep(0)
        raise ValueError("unheard of")

    async def story(node: Node) -> None:
        await asyncio.wait([node.own(wrong())])
        assert node.failure is None

    life(SimulatedFiles(), story)
    assert "unheard of" in caplog.text
