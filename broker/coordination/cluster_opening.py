"""Opening the metadata log at a start. A damaged one stops it: without it nobody knows which topics there are."""

from collections.abc import Callable

from broker.coordination.cluster import METADATA_CONFIG, Cluster
from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.process.environment import Environment
from coordinator.cluster.topic_rules import METADATA_TOPIC, METADATA_TOPIC_ID
from storage.checkpoints import UnreadableDataFolder
from storage.data_folder import DataFolder
from storage.log import LogDamaged

DAMAGED = (
    "{damaged}. Without it nobody knows which topics there are; nothing was changed. Put back a copy of the data "
    "folder, or start once with --repair {folder} to go on without what lies behind the damage: folders of topics that "
    "are then unknown are set aside, never deleted. What stands in the place of a file has to be moved away first."
)


async def open_cluster(
    store: PartitionStore,
    environment: Environment,
    *,
    on_written: Callable[[Partition], None],
    make_partition: Callable[..., Partition],
    made: Callable[[Partition], None],
    data_folder: DataFolder | None,
    node_id: int,
    rack: str | None,
    endpoints: tuple[tuple[str, str, int], ...],
    directory: bytes,
) -> Cluster:
    """The metadata, loaded, with the epoch of this start in it. `made` gets its partition before anything is written.
    Raises `UnreadableDataFolder` where it is damaged or cannot be read; the data folder is left as it was found."""
    known_epoch = store.epoch_before_repair(METADATA_TOPIC, 0)
    try:
        cluster = Cluster(
            store.open(METADATA_TOPIC, METADATA_TOPIC_ID, 0, METADATA_CONFIG.log),
            environment,
            on_written=on_written,
            make_partition=make_partition,
            known_epoch=-1 if known_epoch is None else known_epoch,
        )
        made(cluster.partition)
        await cluster.wait_until_loaded()
    except (LogDamaged, OSError) as damaged:
        if data_folder is not None:
            data_folder.close_cleanly()
        what = damaged if isinstance(damaged, LogDamaged) else f"{METADATA_TOPIC}-0 cannot be opened: {damaged}"
        raise UnreadableDataFolder(DAMAGED.format(damaged=what, folder=f"{METADATA_TOPIC}-0")) from damaged
    await cluster.register(node_id, rack, endpoints, directory)
    if known_epoch is not None:
        await cluster.pass_over_producer_ids(node_id)
    return cluster
