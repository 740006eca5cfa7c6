"""Steps that look into logs, through Fetch, as any client may.

log t-0                every batch, markers too
read t-0               what a read_committed consumer is shown
transaction log tx     what the coordinator wrote of an id: state, identity, partitions
group log g            what it holds of its members: a line for each record
share log g            what the share coordinator wrote of it, by partition
offsets log g          what the group's partition of __consumer_offsets holds of the group, markers too
"""

from typing import TYPE_CHECKING, Any

from broker.coordination.key_partition import partition_for
from coordinator.groups.records import OffsetCommitKey, OffsetCommitValue
from coordinator.transactions.records import TransactionLogKey, TransactionLogValue
from coordinator.transactions.states import TransactionState
from protocol.codec import read_key, read_version, read_versioned
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.batch import BatchHeader, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import records_of
from tallystick.client.reading import joined, visible_records
from tests.scenarios import normalise
from tests.scenarios.group_records import GROUP_RECORDS, group_record_lines, share_record_lines
from tests.scenarios.phrases import partition
from tests.scenarios.rendering import batch_lines, record_word

if TYPE_CHECKING:
    from tests.scenarios.engine import Engine

FETCH = 11
STATES = {state.value: state for state in TransactionState}


async def look(engine: "Engine", words: list[str]) -> list[str]:
    names = engine.names
    if words[0] == "transaction":
        return await _transaction_log(engine, names.unique(words[2]))
    if words[0] == "offsets":
        return await _offsets_log(engine, names.unique(words[2]))
    if words[0] == "group":
        return await _group_log(engine, names.unique(words[2]))
    if words[0] == "share":
        return await _share_log(engine, names.unique(words[2]))
    topic, index = partition(words[1])
    where = (names.unique(topic), index)
    if words[0] == "log":
        data, _ = await _fetched(engine, *where, read_committed=False)
        return list(batch_lines(data, names)) or ["empty"]
    data, aborted = await _fetched(engine, *where, read_committed=True)
    shown = [f"{record.offset} {record_word(record, names)}" for record in visible_records(data, aborted, 0)]
    return shown or ["nothing"]


async def _fetched(engine: "Engine", topic: str, index: int, *, read_committed: bool) -> tuple[bytes, Any]:
    """All of a partition, as one piece, and the aborted transactions that were listed with it."""
    pieces: list[bytes] = []
    aborted = {}
    earliest = [ListOffsetsPartition(partition_index=index, timestamp=-2)]
    asked_start = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=earliest)])
    offset = (await engine.ask_console(asked_start, 7)).topics[0].partitions[0].offset
    while True:
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 22)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=0,
            isolation_level=int(read_committed),
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        found = (await engine.ask_console(request, FETCH)).responses[0].partitions[0]
        assert not found.error_code, f"{topic}-{index} at {offset}: {ErrorCode(found.error_code).name}"
        data = joined(found)
        for one in found.aborted_transactions or []:
            aborted[one.producer_id, one.first_offset] = one
        whole = list(headers_in(data))
        if not whole:
            return b"".join(pieces), list(aborted.values())
        position, last = whole[-1]
        pieces.append(data[: position + last.size])  # the last batch may have been cut off
        offset = last.next_offset


async def _internal(engine: "Engine", topic: str, key: str) -> list[tuple[BatchHeader, int, bytes]]:
    """The batches of the partition of an internal topic that a key belongs to."""
    found = await engine.ask_console(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    index = partition_for(key, len(found.topics[0].partitions))
    data, _ = await _fetched(engine, topic, index, read_committed=False)
    return [(header, position, data) for position, header in headers_in(data)]


async def _transaction_log(engine: "Engine", transactional_id: str) -> list[str]:
    lines = []
    for header, position, data in await _internal(engine, "__transaction_state", transactional_id):
        for record in [] if header.is_control else records_of(data, position):
            assert record.key is not None
            if read_key(TransactionLogKey, record.key).transactional_id != transactional_id:
                continue
            if record.value is None:
                lines.append("tombstone")
            else:
                value = read_versioned(TransactionLogValue, record.value)
                lines.append(_transaction(engine, value, read_version(record.value)))
    return lines or ["empty"]


def _transaction(engine: "Engine", value: TransactionLogValue, version: int) -> str:
    names = engine.names
    words = [STATES[value.transaction_status].wire_name, f"v{version}"]
    words.append(f"{normalise.number(names, 'producer_id', value.producer_id)}:{value.producer_epoch}")
    partitions = value.transaction_partitions
    if partitions is not None:
        places = sorted(f"{names.plain(one.topic)}-{index}" for one in partitions for index in one.partition_ids)
        # The partition of the offsets topic follows from the group's name, which differs from run to run.
        places = [place.rsplit("-", 1)[0] if place.startswith("__consumer_offsets") else place for place in places]
        words.append("[" + " ".join(places) + "]")
    words.append(f"timeout={value.transaction_timeout_ms}")
    words.append(f"start={normalise.time(names, value.transaction_start_timestamp_ms)}")
    for name in ("previous_producer_id", "next_producer_id"):
        if getattr(value, name) >= 0:
            words.append(normalise.scalar(names, name, getattr(value, name)))
    words.append(f"client_version={value.client_transaction_version}")
    return " ".join(words)


async def _group_log(engine: "Engine", group: str) -> list[str]:
    lines = []
    for header, position, data in await _internal(engine, "__consumer_offsets", group):
        for record in [] if header.is_control else records_of(data, position):
            if record.key is not None and (read_version(record.key) in GROUP_RECORDS):
                lines += group_record_lines(engine.names, group, record.key, record.value)
    return lines or ["empty"]


async def _share_log(engine: "Engine", group: str) -> list[str]:
    """The partition of the log follows from the id of the topic, so all of them are read."""
    lines: dict[str, list[str]] = {}
    found = await engine.ask_console(MetadataRequest(topics=[MetadataRequestTopic(name="__share_group_state")]), 12)
    for index in range(len(found.topics[0].partitions)):
        data, _ = await _fetched(engine, "__share_group_state", index, read_committed=False)
        for position, header in headers_in(data):
            for record in [] if header.is_control else records_of(data, position):
                assert record.key is not None
                for where, line in share_record_lines(engine.names, group, record.key, record.value):
                    lines.setdefault(where, []).append(f"{where} {line}")
    return [line for _, of in sorted(lines.items()) for line in of] or ["empty"]


async def _offsets_log(engine: "Engine", group: str) -> list[str]:
    lines, names = [], engine.names
    producers = set()
    for header, position, data in await _internal(engine, "__consumer_offsets", group):
        pid = normalise.number(names, "producer_id", header.producer_id) if header.producer_id in producers else ""
        if header.is_control:
            marker = read_end_transaction(data, position)
            if pid and marker is not None:
                lines.append(f"{pid}:{header.producer_epoch} {'COMMIT' if marker.commit else 'ABORT'}")
            continue
        for record in records_of(data, position):
            if record.key is None or read_version(record.key) != 1:
                continue
            key = read_key(OffsetCommitKey, record.key)
            if key.group != group:
                continue
            who = "plain"
            if header.producer_id >= 0:
                producers.add(header.producer_id)
                pid = normalise.number(names, "producer_id", header.producer_id)
                who = f"{pid}:{header.producer_epoch} seq={header.base_sequence}"
            lines.append(f"{who} {names.plain(key.topic)}-{key.partition}={_offset(record.value)}")
    return lines or ["empty"]


def _offset(value: bytes | None) -> str:
    if value is None:
        return "tombstone"
    read = read_versioned(OffsetCommitValue, value)
    return f"{read.offset} v{read_version(value)}" + (f" metadata={read.metadata}" if read.metadata else "")
