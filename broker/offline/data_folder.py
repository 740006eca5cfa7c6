"""All of a data folder: whose it is, how its last use ended, each log in it, and what they say of each other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.offline.coordinator_logs import GroupLog, MetadataLog, TransactionLog, compare_open
from broker.offline.findings import Findings
from broker.offline.partition_log import Known, LogCheck
from broker.offline.untouched import UntouchedFiles
from broker.partitions.partition_store import PARTITION_FOLDER
from coordinator.cluster.image import ClusterImage
from coordinator.loading import UnreadableLog, entries_of
from coordinator.machine import ReplayedRecord
from coordinator.transactions.states import Transaction
from protocol.internal_topics import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.records.batch import BatchHeader
from storage.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    TRUST_FILE,
    UnreadableDataFolder,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    read_text,
)
from storage.data_folder import FORMAT_VERSION, TRUSTED, read_format
from storage.metadata_snapshots import SnapshotFolder, checked
from storage.producers.producer_state import ProducerState
from storage.segments.segment_format import LOG
from storage.steps import finish, never
from storage.write_ahead.replay import AHEAD_FILE, runs_of, to_replay

_METADATA_FOLDER = f"{CLUSTER_METADATA}-0"
Place = tuple[str, int]
OnBatch = Callable[[BatchHeader, bytes], None]


class NoDataFolder(Exception):
    """There is nothing that could be looked at; the message says why."""


@dataclass(slots=True)
class FolderCheck:
    """See the head of this file."""

    files: UntouchedFiles
    boot_id: str
    open_records: bool = False
    findings: Findings = field(default_factory=Findings)
    on_log: Callable[[int, int], None] | None = None
    """Called with how many logs were looked at, of how many."""
    _clean: bool = False
    _same_boot: bool = False
    _image: ClusterImage | None = None
    """What the metadata say; None where they cannot be read."""

    def run(self) -> None:
        """Raises `NoDataFolder`, `OSError`."""
        self._whose()
        self._ahead()
        places = self._places()
        points = self._checkpoint(RECOVERY_POINTS)
        starts = self._checkpoint(LOG_START_OFFSETS)
        states: dict[Place, ProducerState] = {}
        transactions: dict[str, Transaction] = {}
        for number, place in enumerate(places):
            if self.on_log is not None:
                self.on_log(number, len(places))
            known = self._known(place, points.get(place, 0), starts.get(place, 0))
            states[place] = self._log(place, known, transactions)
        if self._image is not None:
            self._compare_with_metadata(places)
        compare_open(states, transactions, self.findings)
        for place in sorted({*points, *starts} - set(places)):
            if points.get(place, 0) or starts.get(place, 0):
                self.findings.damage(
                    f"{place[0]}-{place[1]}/", None, "it is in the checkpoints, and there is no such folder"
                )

    def _whose(self) -> None:
        try:
            if read_meta_properties(self.files) is None:
                if not self._places():
                    raise NoDataFolder(f"{self.files.root} is no data folder of a broker: nothing of one is in it")
                what = "it is missing: the next start makes it anew, with another id of the cluster and of the folder"
                self.findings.recovery(META_PROPERTIES, None, what)
            version, boot, _ = read_format(self.files)
        except UnreadableDataFolder as problem:
            self.findings.damage("", None, str(problem))
            version, boot = 0, ""
        if version > FORMAT_VERSION:
            raise NoDataFolder(f"the data folder has format {version}; this program knows {FORMAT_VERSION}")
        trusted = read_text(self.files, TRUST_FILE) in (None, TRUSTED)
        self._clean = self.files.exists(CLEAN_SHUTDOWN) and trusted
        self._same_boot = trusted and boot != "" and boot == self.boot_id

    def _ahead(self) -> None:
        """The rest looks at files as they are when the next start has put the write-ahead log where it belongs."""
        try:
            found = to_replay(self.files, expected=read_format(self.files).write_ahead)
            self.files.replayed = {path: runs_of(path, self.files.size(path), pieces) for path, pieces in found.items()}
        except UnreadableDataFolder as problem:
            self.findings.damage(AHEAD_FILE, None, str(problem))
            return
        if found:
            what = f"the next start puts what it has into {len(found)} files, which are looked at as they are then"
            self.findings.recovery(AHEAD_FILE, None, what)

    def _places(self) -> list[Place]:
        """The logs there are; that of the metadata first."""
        found: list[Place] = []
        for name in self.files.list(""):
            matched = PARTITION_FOLDER.match(name)
            if matched is not None and any(
                one == PARTITION_METADATA or one.endswith(LOG) for one in self.files.list(name)
            ):
                found.append((matched["topic"], int(matched["index"])))
        return sorted(found, key=lambda place: (place[0] != CLUSTER_METADATA, place))

    def _checkpoint(self, name: str) -> dict[Place, int]:
        found = read_offsets(self.files, name)
        if not found and self.files.exists(name):
            text = (read_text(self.files, name) or "").split()
            if text[:2] != ["0", "0"]:
                self.findings.damage(name, None, "it is torn, or not understood")
        return found

    def _known(self, place: Place, recovery_point: int, start_offset: int) -> Known:
        topic = None if self._image is None else self._image.topics.get(place[0])
        compacted = place[0] in (CONSUMER_OFFSETS, TRANSACTION_STATE)
        if topic is not None and "compact" in topic.configs.get("cleanup.policy", ""):
            compacted = True
        if self._image is None and place[0] != CLUSTER_METADATA:
            compacted = True  # nobody knows: nothing is asked for that does not hold of such a log
        return Known(
            folder=f"{place[0]}-{place[1]}",
            recovery_point=recovery_point,
            start_offset=start_offset,
            clean=self._clean,
            same_boot=self._same_boot,
            compacted=compacted,
            open_records=self.open_records,
        )

    def _log(self, place: Place, known: Known, transactions: dict[str, Transaction]) -> ProducerState:
        path = f"{known.folder}/"
        on_batch: OnBatch | None = None
        metadata: MetadataLog | None = None
        log: TransactionLog | None = None
        if place[0] == CLUSTER_METADATA:
            metadata = self._metadata_snapshot()
            on_batch = metadata.batch
        elif place[0] == TRANSACTION_STATE:
            log = TransactionLog(path, place[1], self._partitions(place[0]), self.findings)
            on_batch = log.batch
        elif place[0] == CONSUMER_OFFSETS:
            on_batch = GroupLog(path, self.findings).batch
        check = LogCheck(self.files, known, self.findings, on_batch)
        check.run()
        if metadata is not None and metadata.is_readable:
            self._image = metadata.image
        if log is not None:
            transactions.update(log.transactions)
        return check.state

    def _partitions(self, topic: str) -> int:
        known = None if self._image is None else self._image.topics.get(topic)
        return 0 if known is None else known.partition_count

    def _metadata_snapshot(self) -> MetadataLog:
        """The newest whole one is where the image begins; one that is not is damaged."""
        folder = SnapshotFolder(self.files, _METADATA_FOLDER)
        image = ClusterImage()
        for one in reversed(folder.ids()):
            contents = finish(checked(self.files.contents(folder.path(one)), never))
            if contents.damage is not None:
                self.findings.damage(folder.path(one), None, contents.damage)
                continue
            log = MetadataLog(folder.path(one), self.findings, image, one.end_offset)
            try:
                for batch in contents.batches:
                    for entry, _ in entries_of(batch):
                        if isinstance(entry, ReplayedRecord):
                            log.take(entry)
            except UnreadableLog as problem:
                self.findings.damage(folder.path(one), None, str(problem))
            log.path = f"{_METADATA_FOLDER}/"
            return log
        return MetadataLog(f"{_METADATA_FOLDER}/", self.findings, image)

    def _compare_with_metadata(self, places: list[Place]) -> None:
        assert self._image is not None
        there = set(places)
        for topic in self._image.topics.values():
            for partition in range(topic.partition_count):
                if (topic.name, partition) not in there:
                    what = (
                        "the metadata have this partition, and there is no such folder; the next start makes it, empty"
                    )
                    self.findings.recovery(f"{topic.name}-{partition}/", None, what)
        for name, partition in places:
            known = self._image.topics.get(name)
            if name == CLUSTER_METADATA:
                continue
            folder = f"{name}-{partition}"
            found = read_partition_metadata(self.files, folder)
            if found in self._image.removed:
                what = "it is of a topic that was deleted; the next start deletes it"
                self.findings.recovery(f"{folder}/", None, what)
            elif known is None or partition >= known.partition_count:
                self.findings.note(
                    f"{folder}/", "no topic of the metadata has this partition; the next start sets it aside"
                )
            elif found is not None and found != known.topic_id:
                what = f"it has the id {found.hex()}, and the topic has {known.topic_id.hex()}"
                self.findings.damage(f"{folder}/{PARTITION_METADATA}", None, what)
            elif found is None:
                self.findings.recovery(f"{folder}/{PARTITION_METADATA}", None, "it is missing, or torn, and made anew")
