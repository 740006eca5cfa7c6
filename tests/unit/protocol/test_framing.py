"""Lengths and headers around messages."""

import struct

import pytest

from protocol.codec import decode
from protocol.errors import ProtocolError
from protocol.framing import REQUESTS, RESPONSES, UnknownApi, read_request_header, read_response, response_parts
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.produce import ProduceRequest
from protocol.schema import Buffer, schema_of
from tests.harness.framing import request_frame

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_every_request_has_its_response() -> None:
    assert REQUESTS.keys() == RESPONSES.keys()
    for api_key, request in REQUESTS.items():
        ours, theirs = schema_of(request), schema_of(RESPONSES[api_key])
        assert (ours.versions, ours.flexible_since) == (theirs.versions, theirs.flexible_since)
        assert ours.name.removesuffix("Request") == theirs.name.removesuffix("Response")


@pytest.mark.parametrize(("version", "tags"), [(3, ""), (4, "00")])
def test_a_flexible_request_header_has_a_tag_section(version: int, tags: str) -> None:
    """The client id keeps its old length in both (KIP-482)."""
    frame = request_frame(HEARTBEAT, version, 77, "me")
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frame[4:].hex().startswith(f"000c{version:04x}0000004d00026d65{tags}")
    header, offset = read_request_header(memoryview(frame)[4:])
    assert (header.request_api_key, header.request_api_version) == (12, version)
    assert (header.correlation_id, header.client_id, offset) == (77, "me", 12 + len(tags) // 2)


def test_a_client_id_is_optional() -> None:
    assert read_request_header(memoryview(request_frame(HEARTBEAT, 4, 1))[4:])[0].client_id is None


def test_a_header_of_a_future_version_is_readable() -> None:
    """Otherwise no client could learn the versions (KIP-511)."""
    frame = bytearray(request_frame(ApiVersionsRequest(), 4, 5, "new"))
    frame[6:8] = b"\x00\x63"
    header, _ = read_request_header(memoryview(frame)[4:])
    assert (header.request_api_version, header.correlation_id) == (99, 5)


@pytest.mark.parametrize(
    "frame", ["", "0012", "00120004", "0012000400000001", "0012000400000001fffe00", "001200040000000100ff"]
)
def test_half_a_header_is_refused(frame: str) -> None:
    with pytest.raises(ProtocolError):
        read_request_header(memoryview(bytes.fromhex(frame)))


@pytest.mark.parametrize("api_key", [4, 999, -1])
def test_a_key_that_stands_for_nothing_is_refused(api_key: int) -> None:
    with pytest.raises(UnknownApi) as caught:
        read_request_header(memoryview(struct.pack(">hhih", api_key, 0, 1, -1)))
    assert caught.value.api_key == api_key


@pytest.mark.parametrize(("version", "tags"), [(3, ""), (4, "00")])
def test_a_flexible_response_header_has_a_tag_section(version: int, tags: str) -> None:
    answer = HeartbeatResponse(error_code=27)
    frame = b"".join(response_parts(12, version, 77, answer))
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frame[4:].hex() == f"0000004d{tags}00000000001b{tags}"
    assert read_response(12, version, frame[4:]) == (77, answer)


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_api_versions_response_header_never_has_tags(version: int) -> None:
    """Its reader may not know its version yet (KIP-511)."""
    answer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    frame = b"".join(response_parts(18, version, 7, answer))
    assert frame[4:10].hex() == "00000007" + "0000"
    assert read_response(18, version, frame[4:]) == (7, answer)


def test_the_length_counts_the_records_that_are_handed_on() -> None:
    records: list[Buffer] = [bytes(100), memoryview(bytes(50))]
    data = PartitionData(partition_index=0, high_watermark=1, aborted_transactions=None, records=records)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    parts = response_parts(1, 12, 1, answer)
    assert parts[0][:4] == struct.pack(">i", sum(map(len, parts)) - 4)
    assert sum(part is buffer for part in parts for buffer in records) == 2


def test_bytes_behind_a_message_are_left_alone() -> None:
    """Kafka's broker ignores them; the offset shows that they are there."""
    frame = request_frame(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9, 1, "x") + b"behind"
    _, offset = read_request_header(memoryview(frame)[4:])
    _, end = decode(ProduceRequest, 9, memoryview(frame)[4:], offset)
    assert frame[4:][end:] == b"behind"
