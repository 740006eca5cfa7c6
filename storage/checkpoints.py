"""The small files beside the logs, in Kafka's formats where Kafka has one.

recovery-point-offset-checkpoint, log-start-offset-checkpoint    version 0, count, then `topic partition offset`
meta.properties                   whose folder this is (KIP-858: version=1, with a directory id)
.kafka_cleanshutdown              the last run ended well; removed at start
topic-0/partition.metadata        the topic id
tallystick.format                 ours: the version of everything in the folder, and the boot all of it was last read in
tallystick.trust                  ours: whether the page cache may be believed; see `storage.data_folder`
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from storage.files import File, Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"
FORMAT_FILE = "tallystick.format"
TRUST_FILE = "tallystick.trust"
COPY_FILE = "tallystick.copy"
"""Empty; in a data folder that is a copy, until its first start."""
BEING_REPLACED = ".new"
"""Behind the name of a file while `replace_unsynced` writes it."""
TopicPartition = tuple[str, int]


class UnreadableDataFolder(Exception):
    """The data folder is not one this program may work on; the message says why and what to do."""


def read_text(files: Files, path: str) -> str | None:
    """A small file as text; None where it is missing or no text. Raises `OSError`, which names it."""
    if not files.exists(path):
        return None
    try:
        file = files.open(path)
        try:
            return file.read(0, file.size()).decode("utf-8")
        except UnicodeDecodeError:
            return None
        finally:
            file.close()
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be read: {error.strerror or error}") from error


def replace_unsynced(files: Files, path: str, data: bytes) -> None:
    """Replace a small file whole, but let the kernel choose when it reaches the disk: it can be made again."""
    file = files.open(path + BEING_REPLACED, create=True)
    try:
        file.truncate(0)
        file.append([data])
    finally:
        file.close()
    files.rename(path + BEING_REPLACED, path)


def read_offsets(files: Files, name: str) -> dict[TopicPartition, int]:
    """An offset checkpoint; empty where it is missing or damaged, which is always safe: more is read again."""
    text = read_text(files, name) or ""
    offsets: dict[TopicPartition, int] = {}
    try:
        version, count, *lines = text.splitlines()
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        is_whole = int(version) == 0 and int(count) == len(offsets) and text.endswith("\n")
        return offsets if is_whole else {}  # where a line is cut, a number may be another
    except ValueError:
        return {}


def write_offsets(files: Files, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Durable when it returns; may run on another thread (give it a copy)."""
    files.write_whole(name, offsets_text(offsets))


def offsets_text(offsets: Mapping[TopicPartition, int]) -> bytes:
    """What an offset checkpoint says of them."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose data folder this is."""

    cluster_id: str
    node_id: int
    directory_id: str


def read_meta_properties(files: Files) -> MetaProperties | None:
    """None in a folder that was never used."""
    text = read_text(files, META_PROPERTIES)
    if text is None:
        return None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    try:
        if values["version"] != "1":
            raise UnreadableDataFolder(f"{META_PROPERTIES} has version {values['version']}; version 1 is understood.")
        return MetaProperties(values["cluster.id"], int(values["node.id"]), values.get("directory.id", ""))
    except (KeyError, ValueError) as missing:
        raise UnreadableDataFolder(
            f"{META_PROPERTIES} is damaged ({missing}). Put back a copy of it, or delete it and start with "
            "--set cluster.id=ID, if clients know the cluster by its id."
        ) from missing


def write_meta_properties(files: Files, meta: MetaProperties) -> None:
    text = f"cluster.id={meta.cluster_id}\ndirectory.id={meta.directory_id}\nnode.id={meta.node_id}\nversion=1\n"
    files.write_whole(META_PROPERTIES, ("#\n" + text).encode())


def write_clean_shutdown(files: Files) -> None:
    """The very last write of an orderly end, after every log was closed."""
    files.write_whole(CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": -1}).encode())


def take_clean_shutdown(files: Files) -> bool:
    """Whether the last run ended well; the mark is gone, durably, before anything is changed."""
    is_clean = files.exists(CLEAN_SHUTDOWN)
    files.delete(CLEAN_SHUTDOWN)
    files.sync_folder("")  # Where there is none, too: a start may have deleted it, and died before it came to this.
    return is_clean


def read_partition_metadata(files: Files, folder: str) -> bytes | None:
    """The topic id of a partition's folder; None where the file is missing or was torn."""
    lines = (read_text(files, f"{folder}/{PARTITION_METADATA}") or "").splitlines()
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if values.get("version") != "0":
        return None
    try:
        topic_id = urlsafe_b64decode(values.get("topic_id", "") + "==")
    except ValueError:
        return None
    return topic_id if len(topic_id) == 16 else None


def write_partition_metadata(files: Files, folder: str, topic_id: bytes, *, synced: bool = False) -> None:
    """`synced`: on the disk when this returns. A topic of a thousand partitions is to be made quickly: of a new log the
    first flush does that."""
    path = f"{folder}/{PARTITION_METADATA}"
    data = f"version: 0\ntopic_id: {urlsafe_b64encode(topic_id).rstrip(b'=').decode()}\n".encode()
    if synced:
        files.write_whole(path, data)
    else:
        replace_unsynced(files, path, data)


def open_partition_metadata(files: Files, folder: str) -> File | None:
    """The file, to be synced. Some logs have none."""
    try:
        return files.open(f"{folder}/{PARTITION_METADATA}")
    except FileNotFoundError:
        return None
