"""What is read of a request's header, and what a request counts for while it waits."""

import tracemalloc
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.dispatch import DECODED_FACTOR, ELEMENT_BYTES, REMEMBERED_BYTES, TEXT_FACTOR, Call, Dispatcher
from protocol.codec import decode, encode_bytes
from protocol.compile_decoder import MOST_ELEMENTS
from protocol.errors import ProtocolError
from protocol.framing import REQUESTS, RESPONSES, request_parts
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
)
from protocol.messages.metadata import ApiVersionsRequest
from protocol.messages.produce import ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.transactions import DescribeProducersRequest, TopicRequest

MANY = 20_000
CONNECTION = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)


def test_what_waits_counts_as_what_it_may_weigh_decoded() -> None:
    """A long poll over a hundred thousand partitions is much larger as objects than it was as a frame; the records of
    a Produce stay the bytes they are, but one of many partitions is like all others."""
    catalogue = load_handlers()

    def weight(key: int, frame_bytes: int, elements: int, undecoded: memoryview | None = None) -> int:
        context = RequestContext(CONNECTION, key, catalogue[key].versions.start, 1, None)
        return Call(catalogue[key], context, None, elements, undecoded).weight(frame_bytes)

    decoded = 1000 * DECODED_FACTOR
    assert [weight(key, 1000, MOST_ELEMENTS) for key in (0, 1, 11)] == [1000, decoded, decoded]
    assert weight(0, 1000, MOST_ELEMENTS, memoryview(b"")) == decoded
    assert weight(11, 50 << 20, MOST_ELEMENTS) == (200 << 20) + (MOST_ELEMENTS + 1) * ELEMENT_BYTES
    assert weight(11, 20_000, 1) == 20_000 * TEXT_FACTOR + 2 * ELEMENT_BYTES


def test_a_request_counts_for_the_elements_it_has() -> None:
    """A thousand members that wait with 20 KB of metadata each are not a thousand requests full of empty structs."""
    services: Any = None
    dispatcher = Dispatcher(services, load_handlers())
    for count in (0, 1, 70):
        protocols = [JoinGroupRequestProtocol(name="", metadata=bytes(9))] * count
        joining = JoinGroupRequest(
            group_id="group", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=protocols
        )
        call = dispatcher.read(CONNECTION, b"".join(request_parts(joining, 9, 1, None))[4:])
        assert call.elements == count


NO_TOPIC = TopicProduceData(name="", partition_data=[])
UNCOMMITTED = OffsetCommitRequestTopic(name="", partitions=[])
LEANEST: list[tuple[Any, int]] = [
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="", topics=[])] * MANY), 8),
    (
        OffsetCommitRequest(group_id="", member_id="", topics=[UNCOMMITTED] * MANY),
        8,
    ),
    (DescribeProducersRequest(topics=[TopicRequest(name="", partition_indexes=[])] * MANY), 0),
    (
        ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=1,
            topic_data=[NO_TOPIC] * MANY,
        ),
        9,
    ),
    (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="", num_partitions=1, replication_factor=1, assignments=[], configs=[])] * MANY,
            timeout_ms=1,
        ),
        7,
    ),
    (FindCoordinatorRequest(key_type=0, coordinator_keys=["e" * 30_000 + "\U0001f600"] * 100), 4),
    (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="", group_instance_id=None)] * MANY), 5),
]


@pytest.mark.parametrize(("message", "version"), LEANEST, ids=[type(one[0]).__name__ for one in LEANEST])
def test_no_request_weighs_more_than_it_counts_for(message: Any, version: int) -> None:
    """The leanest elements there are, in a few bytes each, and text of which one letter is wide."""
    frame = encode_bytes(message, version)
    tracemalloc.start()
    decoded = decode(type(message), version, frame)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded
    assert held <= len(frame) * DECODED_FACTOR
    assert held <= len(frame) * TEXT_FACTOR + MANY * ELEMENT_BYTES


def test_every_request_has_the_client_id_it_came_with() -> None:
    """Mostly that of the one before, which is not read again; a connection keeps none that is long."""
    services: Any = None
    dispatcher = Dispatcher(services, load_handlers())
    connection = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)
    long = "l" * (REMEMBERED_BYTES + 1)
    for client_id in ("", None, "one", "one", None, "on", "two", long, "two", "", "zwölf", long):
        parts = request_parts(ApiVersionsRequest(), 0, 1, client_id)
        assert dispatcher.read(connection, b"".join(parts)[4:]).context.client_id == client_id
    assert (connection.client_id, connection.client_id_bytes) == ("zwölf", "zwölf".encode())
    frame = b"".join(request_parts(ApiVersionsRequest(), 0, 1, "two"))[4:]
    for bad in (frame[:-1], frame[:-1] + b"\xff"):
        with pytest.raises(ProtocolError):
            dispatcher.read(connection, bad)


def test_frames_of_every_api_can_be_read_and_written() -> None:
    served = {(key, entry.request, entry.response) for key, entry in load_handlers().items()}
    assert served == {(key, REQUESTS[key], RESPONSES[key]) for key in load_handlers()}
