"""What the compiled codecs do with versions, nulls, tags and nonsense."""

import struct
import traceback
import tracemalloc

import pytest

from coordinator.cluster.records import FeatureLevelRecord
from coordinator.transactions.records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from protocol.codec import (
    UnknownVersion,
    decode,
    encode,
    encode_bytes,
    metadata_frame,
    read_key,
    read_metadata_frame,
    read_version,
    read_versioned,
    versioned,
    versioned_key,
)
from protocol.errors import ProtocolError
from protocol.messages.configs import (
    IncrementalAlterConfigsResponse,
)
from protocol.messages.configs import (
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse as ResourceResponse,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.groups import HeartbeatRequest, LeaveGroupRequest, ListedGroup, ListGroupsResponse
from protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    MetadataRequest,
    MetadataRequestTopic,
)
from protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.messages.transactions import (
    DescribeProducersRequest,
    EndTxnRequest,
    EndTxnResponse,
    ListTransactionsRequest,
)
from protocol.primitives import append_uvarint


def produce(records: object) -> ProduceRequest:
    data = PartitionProduceData(index=3, records=records)  # type: ignore[arg-type]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


# Versions.


def test_a_field_absent_from_a_version_reads_as_its_default() -> None:
    answer = EndTxnResponse(error_code=0, producer_id=7, producer_epoch=3)
    assert decode(EndTxnResponse, 5, encode_bytes(answer, 5))[0] == answer
    old = encode_bytes(answer, 4)
    assert decode(EndTxnResponse, 4, old)[0] == EndTxnResponse(error_code=0, producer_id=-1, producer_epoch=-1)


def test_defaults_that_can_change_are_not_shared_between_messages() -> None:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    data = encode_bytes(request, 0)
    one, _ = decode(ListTransactionsRequest, 0, data)
    one.state_filters.append("Ongoing")
    two, _ = decode(ListTransactionsRequest, 0, data)
    assert two.state_filters == []
    answers = [decode(ProduceResponse, 10, encode_bytes(ProduceResponse(responses=[]), 10))[0] for _ in range(2)]
    assert answers[0].node_endpoints is not answers[1].node_endpoints


def test_a_version_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(UnknownVersion):
        decode(EndTxnRequest, 6, b"")
    with pytest.raises(UnknownVersion):
        encode(EndTxnResponse(producer_epoch=0), 99)


def test_the_offset_after_the_message_is_returned() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    data = b"before" + encode_bytes(request, 4) + b"behind"
    assert decode(HeartbeatRequest, 4, data, 6) == (request, len(data) - 6)


# Records.


@pytest.mark.parametrize("version", [3, 9, 13])
def test_records_are_a_slice_of_the_frame(version: int) -> None:
    """Decoding copies no record: writing into the frame afterwards shows in the slice."""
    frame = bytearray(encode_bytes(produce(b"x" * 200), version))
    records = decode(ProduceRequest, version, memoryview(frame))[0].topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    at = frame.index(b"x" * 200)
    frame[at] = ord("y")
    assert records[0] == ord("y")


def test_records_are_handed_on_as_the_buffers_they_are() -> None:
    """Encoding copies no record, be it one buffer or many."""
    one, two = bytes(100), memoryview(bytes(50))
    parts = encode(produce([one, two]), 9)
    assert any(part is one for part in parts)
    assert any(part is two for part in parts)
    assert b"".join(parts) == encode_bytes(produce(bytes(150)), 9)
    assert any(part is one for part in encode(produce(one), 9))


@pytest.mark.parametrize("records", [None, b"", []])
def test_no_records_and_null_records_are_two_things(records: object) -> None:
    read = decode(ProduceRequest, 9, encode_bytes(produce(records), 9))[0].topic_data[0].partition_data[0].records
    assert (read is None) == (records is None)


# Tagged fields (KIP-482).


def partition_answer(leader: LeaderIdAndEpoch) -> bytes:
    partition = PartitionProduceResponse(index=0, base_offset=1, current_leader=leader)
    return encode_bytes(
        ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])]), 10
    )


def test_a_tagged_field_equal_to_its_default_is_not_written() -> None:
    short, long = partition_answer(LeaderIdAndEpoch()), partition_answer(LeaderIdAndEpoch(leader_id=1, leader_epoch=5))
    # Tag, size, two int32 and the tag section of the struct itself.
    assert len(long) - len(short) == 1 + 1 + 9
    read, _ = decode(ProduceResponse, 10, long)
    assert read.responses[0].partition_responses[0].current_leader == LeaderIdAndEpoch(leader_id=1, leader_epoch=5)


def end_txn_with_tags(section: str) -> bytes:
    request = EndTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=2, committed=True)
    return encode_bytes(request, 5)[:-1] + bytes.fromhex(section)


def test_unknown_tagged_fields_are_skipped() -> None:
    data = end_txn_with_tags("020503aabbcc810100")
    read, end = decode(EndTxnRequest, 5, data)
    assert (read.transactional_id, end) == ("tx", len(data))


@pytest.mark.parametrize(
    "section",
    ["0205000500", "0205000400", "010504aabbcc", "0105ffffffff0f", "020500", "ffffffff0f"],
    ids=["twice", "descending", "too long", "far too long", "one missing", "four billion"],
)
def test_tags_out_of_order_or_too_long_are_refused(section: str) -> None:
    with pytest.raises(ProtocolError):
        decode(EndTxnRequest, 5, end_txn_with_tags(section))


def test_a_known_tag_of_another_size_is_refused() -> None:
    """The size in the tag section must be what reading the field takes."""
    data = partition_answer(LeaderIdAndEpoch(leader_id=1, leader_epoch=5))
    at = data.index(bytes.fromhex("0009") + struct.pack(">ii", 1, 5))
    with pytest.raises(ProtocolError, match="another size"):
        decode(ProduceResponse, 10, data[: at + 1] + b"\x0a" + data[at + 2 : at + 11] + b"\x00" + data[at + 11 :])


# Nulls.


def test_null_only_where_the_version_allows_it() -> None:
    assert decode(MetadataRequest, 1, bytes.fromhex("ffffffff"))[0].topics is None
    with pytest.raises(ProtocolError, match="null"):
        decode(MetadataRequest, 0, bytes.fromhex("ffffffff"))
    named = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    assert decode(MetadataRequest, 10, encode_bytes(named, 10))[0].topics == named.topics
    with pytest.raises(ProtocolError, match="null"):
        decode(MetadataRequest, 9, bytes.fromhex("02000001000000"))


@pytest.mark.parametrize("cursor", [None, DescribeTopicPartitionsRequestCursor(topic_name="t", partition_index=4)])
def test_a_struct_may_be_null(cursor: DescribeTopicPartitionsRequestCursor | None) -> None:
    request = DescribeTopicPartitionsRequest(topics=[], cursor=cursor)
    data = encode_bytes(request, 0)
    assert data[5:6] == (b"\xff" if cursor is None else b"\x01")
    assert decode(DescribeTopicPartitionsRequest, 0, data) == (request, len(data))


# Nonsense.


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (MetadataRequest, 0, "7fffffff"),
        (MetadataRequest, 0, "fffffffe"),
        (MetadataRequest, 9, "ffffffff07"),
        (MetadataRequest, 9, "ffffffffff7f"),
        (EndTxnRequest, 0, "7fff6162"),
        (EndTxnRequest, 0, "ffff"),
        (EndTxnRequest, 0, "fffe"),
        (EndTxnRequest, 0, "0002fffe" + "00" * 11),
        (EndTxnRequest, 3, "00" + "00" * 12),
        (EndTxnRequest, 0, ""),
        (ProduceRequest, 9, "00ffff000075300202740200000003ffffffff0f"),
    ],
)
def test_impossible_lengths_and_bad_text_are_refused(cls: type, version: int, data: str) -> None:
    with pytest.raises(ProtocolError):
        decode(cls, version, bytes.fromhex(data))


def test_an_array_length_is_limited_by_the_bytes_left() -> None:
    """Two billion partitions announced in a frame of forty bytes do not become a list."""
    topic = FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)])
    data = bytearray(encode_bytes(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 4))
    at = data.index(b"\x00\x01t") + 3
    data[at : at + 4] = struct.pack(">i", 0x7FFFFFFF)
    with pytest.raises(ProtocolError, match=r"FetchTopic\.partitions: impossible length 2147483647"):
        decode(FetchRequest, 4, data)


def test_an_overlong_string_is_not_written() -> None:
    request = EndTxnRequest(transactional_id="x" * 32768, producer_id=1, producer_epoch=2, committed=True)
    with pytest.raises(ValueError, match="32768"):
        encode(request, 5)
    with pytest.raises(struct.error):
        encode(request, 0)


@pytest.mark.parametrize("version", [0, 1])
def test_an_error_message_is_cut_to_what_a_string_holds(version: int) -> None:
    """It may name what a client sent, which was as long as a string may be already."""
    message = "Invalid value " + "é" * 16_383
    result = ResourceResponse(error_message=message, resource_type=2, resource_name="t")
    data = encode_bytes(IncrementalAlterConfigsResponse(responses=[result]), version)
    (read,) = decode(IncrementalAlterConfigsResponse, version, data)[0].responses
    assert message.startswith(read.error_message) and 32_766 <= len(read.error_message.encode()) <= 32_767


def test_a_traceback_shows_the_compiled_line() -> None:
    """A value that a table forbids is a bug of ours, and the traceback shows where."""
    request = EndTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=99_999, committed=True)
    with pytest.raises(struct.error) as caught:
        encode(request, 5)
    assert "m.producer_epoch" in "".join(traceback.format_exception(caught.value))


# What stands around the records of coordinators.

KEY = "00000003747831"
VALUE = (
    "0001000000000000000700030000ea6001020274030000000000000002000000018bcfe56800"
    "0000018bcfe56418020008000000000000000702020002"
)


def test_a_transaction_record_is_written_as_kafka_writes_it() -> None:
    """The golden vector of the transaction log (I47): key with record type, flexible value with two tags."""
    value = TransactionLogValue(
        producer_id=7,
        previous_producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 2])],
        transaction_last_update_timestamp_ms=1_700_000_000_000,
        transaction_start_timestamp_ms=1_699_999_999_000,
        client_transaction_version=2,
    )
    key = TransactionLogKey(transactional_id="tx1")
    assert versioned_key(key).hex() == KEY
    assert versioned(value, 1).hex() == VALUE
    assert read_version(bytes.fromhex(KEY)) == 0
    assert read_key(TransactionLogKey, bytes.fromhex(KEY)) == key
    assert read_versioned(TransactionLogValue, bytes.fromhex(VALUE)) == value


def test_a_value_of_an_unknown_version_is_refused() -> None:
    """To guess at what a later release wrote would be to lose what it said."""
    with pytest.raises(UnknownVersion):
        read_versioned(TransactionLogValue, b"\x00\x02" + bytes(40))
    with pytest.raises(ProtocolError):
        read_version(b"\x00")


def test_a_record_of_the_metadata_log_has_its_frame() -> None:
    frame = metadata_frame(FeatureLevelRecord(name="transaction.version", feature_level=2), 0)
    assert frame.hex() == "010c00" + "14" + b"transaction.version".hex() + "0002" + "00"
    api_key, version, offset = read_metadata_frame(frame)
    assert (api_key, version) == (12, 0)
    assert decode(FeatureLevelRecord, version, frame, offset)[0].feature_level == 2


@pytest.mark.parametrize("frame", ["", "01", "010c", "020c00", "8080808080800c00"])
def test_a_frame_that_is_none_is_refused(frame: str) -> None:
    with pytest.raises(ProtocolError):
        read_metadata_frame(bytes.fromhex(frame))


@pytest.mark.parametrize("name", ["elements", "numbers", "nested", "tags"])
def test_a_request_of_a_million_empty_elements_is_refused_early(name: str) -> None:
    """A frame of a few megabytes would become a hundred times that of objects."""
    million = bytearray()
    append_uvarint(million, 1_000_001)
    frames = {
        "elements": (LeaveGroupRequest, 5, b"\x02g" + bytes(million) + b"\x01\x00\x00\x00" * 1_000_000),
        "numbers": (DescribeProducersRequest, 0, b"\x02\x02t" + bytes(million) + bytes(4_000_000)),
        "nested": (
            DescribeProducersRequest,
            0,
            b"\x81\x20" + (b"\x02t" + b"\x81\x04" + bytes(4 * 512) + b"\x00") * 4096 + b"\x00",
        ),
        "tags": (DescribeProducersRequest, 0, b"\x01" + b"\x80\x89\x7a" + b"\x01\x00" * 2_000_000),
    }
    cls, version, frame = frames[name]
    tracemalloc.start()
    with pytest.raises(ProtocolError, match="more than 100000 elements"):
        decode(cls, version, frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20


def test_answers_may_have_as_many_elements_as_it_takes() -> None:
    """Only what clients send is bounded: our own client, and the coordinators' logs, have no limit."""
    many = ListGroupsResponse(groups=[ListedGroup(group_id="", protocol_type="") for _ in range(250_001)])
    assert len(decode(ListGroupsResponse, 0, encode_bytes(many, 0))[0].groups) == 250_001
