"""Whose data folder it is: cluster id and node id, in Kafka's `meta.properties`.

A folder of another cluster or another node is refused: its offsets and epochs would be taken for ours.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

from broker.config.broker_config import BrokerConfig
from broker.process.logging import EventLog
from storage.checkpoints import (
    FORMAT_FILE,
    MetaProperties,
    UnreadableDataFolder,
    read_meta_properties,
    write_meta_properties,
)
from storage.data_folder import DataFolder
from storage.files import Files

_log = EventLog("node")

UNOPENED = (
    "The data folder cannot be opened: {error}. No log was touched. Put back a copy of that file, or move away what "
    "stands in its place, and start again."
)


def draw_id(random_bytes: Callable[[int], bytes]) -> str:
    """A fresh id in Kafka's form: 16 random bytes in 22 characters, none of which begins with a dash."""
    while True:
        drawn = urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")
        if not drawn.startswith("-"):
            return drawn


def directory_of(text: str) -> bytes:
    """The 16 bytes of a directory id; zeros, which is Kafka's "unassigned", where it is none."""
    try:
        found = urlsafe_b64decode(text + "==")
    except ValueError:
        return bytes(16)
    return found if len(found) == 16 else bytes(16)


def identify(
    files: Files, *, node_id: int, cluster_id: str | None, random_bytes: Callable[[int], bytes]
) -> MetaProperties:
    """Read or make the identity of a data folder. Raises `UnreadableDataFolder` where it is another's."""
    found = read_meta_properties(files)
    if found is None:
        made = MetaProperties(cluster_id or draw_id(random_bytes), node_id, draw_id(random_bytes))
        write_meta_properties(files, made)
        if files.exists(FORMAT_FILE):
            _log.warning("meta.properties was missing and is made anew", cluster=made.cluster_id)
        return made
    if cluster_id is not None and cluster_id != found.cluster_id:
        raise UnreadableDataFolder(
            f"The data folder belongs to the cluster {found.cluster_id}, but cluster.id is {cluster_id}."
        )
    if node_id != found.node_id:
        raise UnreadableDataFolder(f"The data folder belongs to node {found.node_id}, but node.id is {node_id}.")
    return found


def open_data_folder(
    files: Files, config: BrokerConfig, *, boot_id: str, random_bytes: Callable[[int], bytes]
) -> tuple[DataFolder, MetaProperties]:
    """The data folder, and whose it is. Raises `UnreadableDataFolder`."""
    try:
        identity = identify(files, node_id=config.node_id, cluster_id=config.cluster_id, random_bytes=random_bytes)
        to_repair = config.get_list("tallystick.repair")
        folder = DataFolder(files, boot_id=boot_id, page_cache=config.page_cache, to_repair=to_repair)
        if folder.replayed:
            _log.info("the write-ahead log was put where it belongs", files=folder.replayed)
        return folder, identity
    except OSError as error:
        what = error if error.filename or not error.strerror else error.strerror
        raise UnreadableDataFolder(UNOPENED.format(error=what)) from error
