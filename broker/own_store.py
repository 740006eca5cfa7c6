"""Where the logs of a node that is alone lie: in its data folder, or in memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.config.broker_config import BrokerConfig
from broker.disk.data_identity import draw_id, open_data_folder
from broker.disk.group_commit import GroupCommit
from broker.partitions.committing import Committing
from broker.partitions.partition_store import FolderStore, MemoryStore, PartitionStore
from broker.process.environment import Environment
from storage.checkpoints import MetaProperties
from storage.data_folder import DataFolder
from storage.files import Files
from storage.write_ahead.files import WriteAheadFiles
from storage.write_ahead.write_ahead_log import WriteAheadLog

if TYPE_CHECKING:
    from broker.faults.control import Faults


def own_store(
    config: BrokerConfig, environment: Environment, commits: Committing, faults: "Faults | None"
) -> tuple[PartitionStore, MetaProperties, DataFolder | None]:
    """With who the node is by its data folder, which is None where all is in memory. `commits` takes care of the
    write-ahead log, where there is to be one. Raises what `broker.disk.data_identity.open_data_folder` does."""
    random_bytes = environment.random_bytes
    if config.in_memory:
        drawn = config.cluster_id or draw_id(random_bytes)
        return MemoryStore(), MetaProperties(drawn, config.node_id, draw_id(random_bytes)), None
    around: Callable[[Files], Files] = _nothing_around if faults is None else faults.around_files
    files = around(environment.files)
    folder, identity = open_data_folder(files, config, boot_id=environment.boot_id(), random_bytes=random_bytes)
    if config.write_ahead_bytes and isinstance(commits, GroupCommit):
        ahead = WriteAheadLog(environment.files, config.write_ahead_bytes, commits_before=config.write_ahead_after)
        ahead.on_failed, ahead.mark, commits.ahead = folder.distrust, folder.mark_write_ahead, ahead
        files = around(WriteAheadFiles(environment.files, ahead))
    store = FolderStore(
        files,
        now_ms=environment.wall_ms,
        recovery=folder.recovery_of,
        delete_delay_ms=lambda: config.get_int("log.segment.delete.delay.ms"),
        on_sync_failed=folder.distrust,
    )
    return store, identity, folder


def _nothing_around(files: Files) -> Files:
    return files
