"""Where the logs of a node that is alone lie: in its data folder, or in memory."""

from collections.abc import Callable

from broker.config.broker_config import BrokerConfig
from broker.disk.data_identity import draw_id, open_data_folder
from broker.partitions.partition_store import FolderStore, MemoryStore, PartitionStore
from broker.process.environment import Environment
from storage.checkpoints import MetaProperties
from storage.data_folder import DataFolder
from storage.files import Files


def own_store(
    config: BrokerConfig, environment: Environment, around: Callable[[Files], Files]
) -> tuple[PartitionStore, MetaProperties, DataFolder | None]:
    """With who the node is by its data folder, which is None where all is in memory. `around` puts something between
    the node and its files. Raises what `broker.disk.data_identity.open_data_folder` does."""
    random_bytes = environment.random_bytes
    if config.in_memory:
        drawn = config.cluster_id or draw_id(random_bytes)
        return MemoryStore(), MetaProperties(drawn, config.node_id, draw_id(random_bytes)), None
    files = around(environment.files)
    folder, identity = open_data_folder(files, config, boot_id=environment.boot_id(), random_bytes=random_bytes)
    store = FolderStore(
        files,
        now_ms=environment.wall_ms,
        recovery=folder.recovery_of,
        delete_delay_ms=lambda: config.get_int("log.segment.delete.delay.ms"),
        on_sync_failed=folder.distrust,
    )
    return store, identity, folder
