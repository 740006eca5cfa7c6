"""Opening the metadata log at a start. A damaged one stops it: without it the topics are unknown.

The newest whole snapshot is read, and the log behind it. Where none is whole, all of the log, if it is there since the
beginning; otherwise the metadata is damaged. A repair takes what stands before the damage of the newest snapshot, and
writes that down at once as a new one: what the log says behind a damage means nothing without what stood before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.coordination.cluster import METADATA_CONFIG, Beginning, Cluster
from broker.coordination.metadata_snapshots import MetadataSnapshots
from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.steps import run_steps
from coordinator.cluster.topic_rules import METADATA_TOPIC_ID
from protocol.internal_topics import CLUSTER_METADATA
from storage.checkpoints import UnreadableDataFolder
from storage.data_folder import DataFolder
from storage.log import Log, LogDamaged
from storage.metadata_snapshots import SnapshotContents, SnapshotFolder, SnapshotId

DAMAGED = (
    "{damaged}. Without it nobody knows which topics there are; nothing was changed. Put back a copy of the data "
    "folder, or start once with --repair {folder} to go on without what lies behind the damage: folders of topics that "
    "are then unknown are set aside, never deleted. What stands in the place of a file has to be moved away first."
)

_log = EventLog("metadata")


async def open_cluster(
    store: PartitionStore,
    environment: Environment,
    config: BrokerConfig,
    *,
    on_written: Callable[[Partition], None],
    make_partition: Callable[..., Partition],
    made: Callable[[Partition], None],
    data_folder: DataFolder | None,
    endpoints: Mapping[str, Endpoint],
    directory: bytes,
) -> Cluster:
    """The metadata, loaded, with the epoch of this start in it. `made` gets its partition before anything is written.
    Raises `UnreadableDataFolder` where it is damaged or cannot be read; the data folder is left as it was found."""
    known_epoch = store.epoch_before_repair(CLUSTER_METADATA, 0)
    folder = store.metadata_snapshots(CLUSTER_METADATA, 0)
    try:
        found = await read_snapshots(folder, environment)
        log = _open_log(store, folder, found)
        cluster = Cluster(
            log,
            environment,
            on_written=on_written,
            make_partition=make_partition,
            known_epoch=-1 if known_epoch is None else known_epoch,
            begins=_beginning(folder, found, log),
        )
        made(cluster.partition)
        await cluster.wait_until_loaded()
    except (LogDamaged, OSError) as damaged:
        if data_folder is not None:
            data_folder.close_cleanly()
        what = damaged if isinstance(damaged, LogDamaged) else f"{CLUSTER_METADATA}-0 cannot be opened: {damaged}"
        raise UnreadableDataFolder(DAMAGED.format(damaged=what, folder=f"{CLUSTER_METADATA}-0")) from damaged
    told = tuple((name, one.host, one.port, config.security_protocol(name).number) for name, one in endpoints.items())
    await cluster.register(config.node_id, config.rack, told, directory)
    is_copy = data_folder is not None and data_folder.is_copy
    if known_epoch is not None or is_copy:
        await cluster.pass_over_producer_ids(config.node_id)
    if data_folder is not None and is_copy:
        data_folder.goes_its_own_way()
    if folder is not None:
        if folder.repair:
            await MetadataSnapshots(cluster, lambda: folder, config, environment, lambda: cluster.image.removed).take()
            folder.set_aside(found.damaged)
        folder.tidy()
    return cluster


@dataclass(slots=True)
class FoundSnapshots:
    """The snapshots of a folder, newest first, as far as they had to be read."""

    whole: SnapshotId | None = None
    contents: SnapshotContents = field(default_factory=SnapshotContents)
    """Those of the whole one, or else of the newest."""
    damaged: list[SnapshotId] = field(default_factory=list[SnapshotId])


async def read_snapshots(folder: SnapshotFolder | None, environment: Environment) -> FoundSnapshots:
    """The newest whole one, and what is wrong with those after it."""
    found = FoundSnapshots()
    for one in reversed(folder.ids() if folder is not None else []):
        assert folder is not None
        read = folder.read
        contents = await run_steps(environment, lambda spent, one=one, read=read: read(one, spent))  # type: ignore[misc]
        if contents.damage is None:
            found.whole, found.contents = one, contents
            break
        _log.error("a snapshot of the metadata is damaged", file=folder.path(one), reason=contents.damage)
        if not found.damaged:
            found.contents = contents
        found.damaged.append(one)
    return found


def _open_log(store: PartitionStore, folder: SnapshotFolder | None, found: FoundSnapshots) -> Log:
    repair, whole = folder is not None and folder.repair, found.whole
    # What a repair cuts off may have stood before the snapshot, which holds it: the log then begins behind that.
    start_offset = whole.end_offset if repair and whole is not None else 0
    return store.open(CLUSTER_METADATA, METADATA_TOPIC_ID, 0, METADATA_CONFIG.log, start_offset=start_offset)


def _beginning(folder: SnapshotFolder | None, found: FoundSnapshots, log: Log) -> Beginning:
    """Raises `LogDamaged` where snapshot and log together do not tell all."""
    one = found.whole
    if one is not None and log.start_offset <= one.end_offset <= log.end_offset:
        return Beginning(one.end_offset, one.epoch, found.contents.batches)
    if log.start_offset == 0 and one is None and not _is_behind(found.damaged, log):
        return Beginning(0)
    assert folder is not None, "a log in memory begins with the process"
    if folder.repair and one is None:
        epoch = found.damaged[0].epoch if found.damaged else -1
        return Beginning(log.end_offset, epoch, found.contents.batches, is_cut=True)
    log.abandon()
    if one is not None:
        reason = f"the log, which begins at {log.start_offset}, ends at {log.end_offset}"
        raise LogDamaged(folder.path(one), None, one.end_offset, reason)
    path = folder.path(found.damaged[0]) if found.damaged else f"{folder.folder}/"
    reason = found.contents.damage or "there is no snapshot of what stood before"
    raise LogDamaged(path, None, log.start_offset, reason)


def _is_behind(damaged: list[SnapshotId], log: Log) -> bool:
    """Whether one shows that the log was longer."""
    return any(one.end_offset > log.end_offset for one in damaged)
