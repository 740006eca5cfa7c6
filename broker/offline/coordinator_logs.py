"""What the logs of coordinators say: each record can be read, belongs where it stands, and goes on from the one before.

Compaction takes records away, and whole transactions with them; so only what holds between any two records of an id is
asked for: epochs and times never go back, and who completes has decided so before.
"""

from dataclasses import dataclass, field

from broker.coordination.key_partition import partition_for
from broker.offline.findings import Findings
from coordinator.cluster.image import ClusterImage
from coordinator.loading import UnreadableLog, entries_of
from coordinator.machine import ReplayedRecord
from coordinator.transactions.states import IDLE, Transaction, TransactionState, read_key, read_value
from protocol.errors import ProtocolError
from protocol.records.batch import BatchHeader
from storage.producers.producer_state import ProducerState

_DECIDED = {
    TransactionState.COMPLETE_COMMIT: TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_ABORT: TransactionState.PREPARE_COMMIT,
}
"""What is complete cannot follow the other decision of the same epoch."""


@dataclass(slots=True)
class TransactionLog:
    """One partition of `__transaction_state`."""

    path: str
    partition: int
    partitions: int
    findings: Findings
    transactions: dict[str, Transaction] = field(default_factory=dict[str, Transaction])

    def batch(self, header: BatchHeader, data: bytes) -> None:
        for entry in _records(self.path, data, self.findings):
            self._record(entry)

    def _record(self, entry: ReplayedRecord) -> None:
        where = f"offset {entry.offset}"
        try:
            transactional_id = read_key(entry.key)
            after = None if entry.value is None else read_value(entry.value)
        except ProtocolError as problem:
            self.findings.damage(self.path, None, f"{where} cannot be read: {problem}")
            return
        if transactional_id is None:
            return
        if self.partitions and partition_for(transactional_id, self.partitions) != self.partition:
            self.findings.damage(self.path, None, f"{where}: {transactional_id!r} belongs to another partition")
        before = self.transactions.pop(transactional_id, None)
        if after is not None:
            self.transactions[transactional_id] = after
        if before is not None and (what := _impossible(before, after)):
            self.findings.damage(self.path, None, f"{where}, {transactional_id!r}: {what}")


def _impossible(before: Transaction, after: Transaction | None) -> str:
    if after is None:
        return "" if before.state in IDLE else f"it is forgotten while its state is {before.state.wire_name}"
    if after.producer_id != before.producer_id:
        return ""
    if after.producer_epoch < before.producer_epoch:
        return f"epoch {after.producer_epoch} follows {before.producer_epoch}"
    if after.producer_epoch == before.producer_epoch and _DECIDED.get(after.state) == before.state:
        return f"{after.state.wire_name} follows {before.state.wire_name}"
    return ""


@dataclass(slots=True)
class GroupLog:
    """One partition of `__consumer_offsets`: each record can be opened, and has a key of a type."""

    path: str
    findings: Findings

    def batch(self, header: BatchHeader, data: bytes) -> None:
        for entry in _records(self.path, data, self.findings):
            if len(entry.key) < 2:
                self.findings.damage(self.path, None, f"offset {entry.offset} has a key without a type")


@dataclass(slots=True)
class MetadataLog:
    """`__cluster_metadata`, behind the newest whole snapshot."""

    path: str
    findings: Findings
    image: ClusterImage
    begins_at: int = 0
    is_readable: bool = True

    def batch(self, header: BatchHeader, data: bytes) -> None:
        if header.base_offset < self.begins_at or not self.is_readable:
            return
        for entry in _records(self.path, data, self.findings):
            self.take(entry)

    def take(self, entry: ReplayedRecord) -> None:
        """One record; after one that cannot follow, the rest means nothing."""
        try:
            self.image.replay(entry.offset, entry.value or b"", entry.timestamp_ms)
        except (ProtocolError, AssertionError, KeyError) as problem:
            self.is_readable = False
            what = f"offset {entry.offset} does not follow from what stands before: {problem}"
            self.findings.damage(self.path, None, what)


def _records(path: str, data: bytes, findings: Findings) -> list[ReplayedRecord]:
    try:
        return [entry for entry, _ in entries_of(data) if isinstance(entry, ReplayedRecord)]
    except UnreadableLog as problem:
        findings.damage(path, None, str(problem))
        return []


def compare_open(
    states: dict[tuple[str, int], ProducerState], transactions: dict[str, Transaction], findings: Findings
) -> None:
    """Transactions that are open in partitions and in the hands of no coordinator (KIP-664). That is none of the files'
    fault: a client without a coordinator's word may have begun one, where brokers let it."""
    held = {
        (producer_id, partitions.topic, partition)
        for one in transactions.values()
        if one.state not in IDLE
        for producer_id in (one.producer_id, one.previous_producer_id, one.next_producer_id)
        for partitions in one.partitions
        for partition in partitions.partitions
    }
    for (topic, partition), state in sorted(states.items()):
        for producer_id in state.open_transactions():
            if (producer_id, topic, partition) not in held:
                entry = state.entry(producer_id)
                begun = "" if entry is None else f" from offset {entry.transaction_first_offset} on"
                what = f"the transaction of producer {producer_id}{begun} is open and known to no coordinator"
                findings.note(f"{topic}-{partition}/", what)
