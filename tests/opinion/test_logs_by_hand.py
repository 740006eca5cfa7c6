"""Logs that no broker may have, and ends of transactions that nobody wanted; each with what is allowed beside it."""

from collections.abc import Sequence
from typing import Any

import pytest

from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.messages.transactions import EndTxnRequest, EndTxnResponse
from protocol.records.batch import place, read_header
from protocol.records.control import end_transaction_marker
from protocol.records.record import NewRecord, build_batch
from tests.opinion.judge import judge
from tests.opinion.operations import offsets_partition
from tests.opinion.trace import Circumstances, Trace

PRODUCER = 7


def data(sequence: int, *, epoch: int = 0, count: int = 1, transactional: bool = True) -> bytes:
    records = [NewRecord(value=b"v")] * count
    return build_batch(
        records, producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def marker(epoch: int, *, commit: bool) -> bytes:
    return end_transaction_marker(
        producer_id=PRODUCER, producer_epoch=epoch, commit=commit, coordinator_epoch=0, timestamp_ms=0
    )


def log_of(*batches: bytes, counts: Sequence[int] = ()) -> bytes:
    """The batches one behind the other."""
    made, offset = bytearray(), 0
    for index, batch in enumerate(batches):
        placed = bytearray(batch)
        place(placed, offset, 0)
        made += placed
        offset += counts[index] if counts else 1
    return bytes(made)


def look(trace: Trace, log: bytes, end: int, *, stable: int, index: int = 0, start: int = 0) -> None:
    """A reader of everything is shown the log."""
    asked = FetchPartition(partition=index, fetch_offset=start, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[asked])])
    found = PartitionData(
        partition_index=index,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=None,
        records=log,
    )
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[found])])
    trace.receive(trace.send("reader", request, 11), answer)


def end_txn(trace: Trace, *, commit: bool, epoch: int = 0, version: int = 5, code: int = 0) -> None:
    request = EndTxnRequest(transactional_id="", producer_id=PRODUCER, producer_epoch=epoch, committed=commit)
    answer = EndTxnResponse(error_code=code, producer_id=PRODUCER, producer_epoch=epoch + 1)
    trace.receive(trace.send("writer", request, version), answer)


def rules(trace: Trace, circumstances: Circumstances | None = None) -> set[str]:
    return {one.rule for one in judge(trace, circumstances or Circumstances())}


def plain(sequence: int, epoch: int = 0) -> bytes:
    return data(sequence, epoch=epoch, transactional=False)


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ((plain(0), plain(1)), set()),
        ((plain(0, 1), plain(0, 2), plain(1, 2)), set()),
        ((plain(2**31 - 1), plain(0)), set()),
        ((plain(0), plain(2)), {"log.sequence"}),
        ((plain(0), plain(0)), {"log.sequence"}),
        ((plain(0), plain(1, 1)), {"log.sequence"}),
        ((plain(0, 1), plain(1, 0)), {"log.epoch"}),
        ((data(0), plain(1)), {"log.sequence"}),
        ((data(0), data(0, epoch=1)), {"log.epoch"}),
    ],
)
def test_sequences_and_epochs_only_go_on(batches: tuple[bytes, ...], found: set[str]) -> None:
    """I21, I23, I35."""
    trace = Trace()
    is_open = bool(read_header(batches[0]).is_transactional)
    look(trace, log_of(*batches), len(batches), stable=0 if is_open else len(batches))
    assert rules(trace) == found


@pytest.mark.parametrize("second", [plain(9), marker(0, commit=False)])
def test_a_producer_that_may_be_forgotten_may_begin_anywhere(second: bytes) -> None:
    trace = Trace()
    look(trace, log_of(plain(0, 1), second), 2, stable=2)
    assert rules(trace)
    assert rules(trace, Circumstances(forgets_producers=True)) == set()


def test_batches_do_not_overlap() -> None:
    trace = Trace()
    look(trace, log_of(data(0, count=3, transactional=False), plain(3), counts=(2, 1)), 3, stable=3)
    assert rules(trace) >= {"log.overlap"}


@pytest.mark.parametrize(
    ("ends", "markers", "found"),
    [
        ([], [marker(1, commit=False)] * 2, set()),
        ([{"commit": True}], [marker(1, commit=True)] * 2, set()),
        ([{"commit": True, "version": 4}], [marker(0, commit=True)] * 2, set()),
        ([], [marker(1, commit=True)] * 2, {"end.unwanted"}),
        ([], [marker(0, commit=False)] * 2, {"end.unwanted"}),
        ([{"commit": True, "version": 4}], [marker(0, commit=False)] * 2, {"end.unwanted"}),
        ([{"commit": True}], [marker(1, commit=False)] * 2, {"end.otherwise"}),
        ([{"commit": False}], [marker(1, commit=True)] * 2, {"end.otherwise", "end.unwanted"}),
        ([{"commit": True, "code": 48}], [marker(1, commit=True), marker(1, commit=False)], {"end.torn"}),
        ([{"commit": True}], [marker(1, commit=True), b""], {"end.missing"}),
    ],
)
def test_markers_are_what_somebody_wanted_and_the_same_everywhere(
    ends: list[dict[str, Any]], markers: list[bytes], found: set[str]
) -> None:
    """I04, I05: the markers of one transaction in two partitions."""
    trace = Trace()
    for one in ends:
        end_txn(trace, **one)
    for index, found_marker in enumerate(markers):
        batches = [data(0), *([found_marker] if found_marker else [])]
        look(trace, log_of(*batches), len(batches), stable=len(batches) if found_marker else 0, index=index)
    assert {one for one in rules(trace, Circumstances(settled=True)) if one != "id.answer"} == found


def test_what_is_no_sound_batch_is_not_taken() -> None:
    """I35: a control batch of a client."""
    trace = Trace()
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=marker(0, commit=True))])
        ],
    )
    taken = PartitionProduceResponse(index=0, base_offset=0)
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[taken])])
    trace.receive(trace.send("writer", request, 11), answer)
    assert rules(trace) == {"produce.unsound"}


def test_an_empty_answer_does_not_come_early() -> None:
    trace = Trace()
    look(trace, b"", 0, stable=0)
    assert rules(trace) == set()
    waited = trace.exchanges[0]
    waited.request.min_bytes, waited.request.max_wait_ms = 1, 500
    waited.sent_s, waited.received_s = 0.0, 0.1
    assert rules(trace) == {"fetch.early"}
    waited.received_s = 0.5
    assert rules(trace) == set()


@pytest.mark.parametrize(
    ("group", "partition"),
    [("foo", 24), ("my-group", 12), ("kafka-txn-0", 30), ("polygenelubricants", 0), ("", 0), ("事务", 20)],
)
def test_groups_lie_where_java_puts_them(group: str, partition: int) -> None:
    assert offsets_partition(group, 50) == ("__consumer_offsets", partition)


def test_a_marker_that_nobody_read_before_the_log_was_emptied_may_be_what_is_last() -> None:
    trace = Trace()
    look(trace, log_of(data(0)), 1, stable=0)
    look(trace, b"", 2, stable=2, start=2)
    look(trace, b"", 2, stable=2, start=2)
    assert judge(trace, Circumstances()) == []


@pytest.mark.parametrize("behind", [False, True])
def test_who_reads_for_the_leader_does_not_show_where_the_log_ends(behind: bool) -> None:
    trace = Trace()
    wanted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    done = DeleteRecordsTopicResult(
        name="t", partitions=[DeleteRecordsPartitionResult(partition_index=0, low_watermark=2)]
    )
    look(trace, log_of(data(0)), 1, stable=0)
    deletion = trace.send("admin", DeleteRecordsRequest(topics=[wanted], timeout_ms=1000), 2)
    trace.receive(deletion, DeleteRecordsResponse(topics=[done]))
    look(trace, log_of(data(0)), 1, stable=0)
    rules = {one.rule for one in judge(trace, Circumstances(reads_behind=behind))}
    assert ("delete.start" in rules) is not behind
