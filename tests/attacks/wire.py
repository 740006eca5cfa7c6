"""A socket with the framing of Kafka, for requests that are meant well and for those that are not; and the requests
that most attacks begin with.
"""

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Callable
from struct import pack, unpack, unpack_from
from typing import Any, ClassVar

from protocol.errors import ErrorCode
from protocol.framing import read_response
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.metadata import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
)
from protocol.records.record import NewRecord, build_batch
from protocol.schema import schema_of
from tests.harness.framing import request_frame

PATIENCE_S = 120.0
"""How long a wait may last before it counts as for ever. Nothing is concluded from a shorter one."""

RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What every client repeats while a broker starts, loads, or makes its internal topics."""


RETRY_S = 30.0
"""For how long it is repeated, before the broker counts as one that never gets ready."""


class Hangup(Exception):
    """The broker closed the connection."""


AUTHORITY = "TALLYSTICK_ATTACK_CA"
"""Names the file of whom everybody trusts, attackers and the honest client, where the listener speaks TLS."""
SAYS = "TALLYSTICK_ATTACK_SAYS"
"""What everybody says of themselves with SASL PLAIN, name and password, where the listener wants to hear it."""


def _encryption() -> ssl.SSLContext | None:
    path = os.environ.get(AUTHORITY)
    return None if path is None else ssl.create_default_context(cafile=path)


def _said() -> tuple[str, str] | None:
    name, found, password = os.environ.get(SAYS, "").partition(" ")
    return (name, password) if found else None


class Link:
    """One connection. Requests may be sent without reading what is answered."""

    encryption: ClassVar[ssl.SSLContext | None] = _encryption()
    """What the listener under attack is spoken to with, where it speaks TLS."""
    says: ClassVar[tuple[str, str] | None] = _said()
    """Name and password, where it wants to hear them."""

    def __init__(self, bootstrap: str, *, receive_buffer: int | None = None, seconds: float = PATIENCE_S) -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(seconds)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if Link.encryption is not None:
            self._shake_hands(Link.encryption)
        self._correlation = 0
        if Link.says is not None:
            self._say_who(*Link.says)

    def _shake_hands(self, encryption: ssl.SSLContext) -> None:
        try:
            self.socket = encryption.wrap_socket(self.socket, server_hostname="localhost")
        except (ssl.SSLError, ConnectionError) as error:
            raise Hangup(str(error)) from error

    def _say_who(self, name: str, password: str) -> None:
        assert self.request(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.NONE
        message = f"\0{name}\0{password}".encode()
        assert self.request(SaslAuthenticateRequest(auth_bytes=message), 2).error_code == ErrorCode.NONE
        self._correlation = 0

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Raises `Hangup` where the broker has closed the connection."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError) as error:
            raise Hangup(str(error)) from error

    def send_if_open(self, data: bytes) -> None:
        """For bytes that the broker may refuse half-way."""
        with contextlib.suppress(Hangup, TimeoutError):
            self.send(data)

    def frame(self) -> bytes:
        """The next whole response, without its length."""
        (length,) = unpack(">i", self._exactly(4))
        return self._exactly(length)

    def ended(self) -> bool:
        """Whether the broker closes the connection without another byte; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def request(self, message: object, version: int, *, client_id: str | None = "attack") -> Any:
        """Send, and wait for the response."""
        self._correlation += 1
        self.send(request_frame(message, version, self._correlation, client_id))
        correlation, response = read_response(schema_of(type(message)).api_key, version, self.frame())
        assert correlation == self._correlation
        return response

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError as error:
                raise Hangup(str(error)) from error
            if not piece:
                raise Hangup("the broker closed the connection")
            data += piece
        return bytes(data)


def framed(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def correlation_of(frame: bytes) -> int:
    return int(unpack_from(">i", frame)[0])


def batch_of(values: list[bytes], *, key: bytes | None = None, **options: Any) -> bytes:
    """One batch; `key` is that of every record."""
    now_ms = time.time_ns() // 1_000_000
    records = [NewRecord(key=key, value=value, timestamp_ms=now_ms) for value in values]
    return bytes(build_batch(records, **options))


def versions() -> ApiVersionsRequest:
    return ApiVersionsRequest()


def metadata(*names: str, create: bool = False) -> MetadataRequest:
    """Of these topics, or of all."""
    topics = [MetadataRequestTopic(name=name) for name in names] or None
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def produce(
    topic: str, records: bytes | None, *, index: int = 0, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30_000, topic_data=data)


def produced(response: Any) -> tuple[int, int]:
    """(error code, base offset) of a Produce of one partition."""
    partition = response.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


def fetch(topic: str, offset: int, *, index: int = 0, max_wait_ms: int = 0, committed: bool = False) -> FetchRequest:
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def list_offsets(topic: str, timestamp: int, *, index: int = 0) -> ListOffsetsRequest:
    """-1 is the end, -2 the start."""
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])


def create_topics(names: list[str], partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    """Settings are keywords, with `_` for `.`."""
    settings = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=settings)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=60_000)


def make_topic(link: Link, name: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic and wait until it has a leader. Nothing is wrong with one that is there already."""
    made = link.request(create_topics([name], partitions, **configs), 5)
    assert made.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), made
    retried(link, metadata(name), 9, lambda response: response.topics[0].error_code)


def retried(link: Link, message: object, version: int, code_of: Callable[[Any], int]) -> Any:
    """The response, as soon as its error is none that every client repeats."""
    deadline = time.monotonic() + RETRY_S
    while code_of(response := link.request(message, version)) in RETRIED:
        if time.monotonic() > deadline:
            name = type(message).__name__
            raise TimeoutError(f"{name} is answered {ErrorCode(code_of(response)).name} for {RETRY_S:.0f} s")
    return response


def whole_error(response: Any) -> int:
    return int(response.error_code)


def written(link: Link, topic: str, batch: bytes, index: int = 0) -> None:
    """A batch is in the log; a leader that is not there yet is waited for."""
    code, _ = produced(retried(link, produce(topic, batch, index=index), 9, lambda response: produced(response)[0]))
    assert code == ErrorCode.NONE, ErrorCode(code)


def wait_for_coordinator(link: Link, key: str, key_type: int) -> None:
    """Until the coordinator of a group (0) or of a transactional id (1) is there."""
    retried(link, FindCoordinatorRequest(key=key, key_type=key_type), 3, whole_error)


def initialised(link: Link, transactional_id: str | None, timeout_ms: int = 60_000) -> tuple[int, int]:
    """A producer id and its epoch."""
    if transactional_id is not None:
        wait_for_coordinator(link, transactional_id, 1)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    made = retried(link, request, 4, whole_error)
    assert made.error_code == ErrorCode.NONE, ErrorCode(made.error_code)
    return made.producer_id, made.producer_epoch


def add_partitions(transactional_id: str, producer: tuple[int, int], topics: dict[str, list[int]]) -> Any:
    """AddPartitionsToTxn as clients send it, for version 3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in topics.items()],
    )


def add_many(
    transactional_id: str, topics: list[AddPartitionsToTxnTopic], *, count: int, verify_only: bool
) -> AddPartitionsToTxnRequest:
    """AddPartitionsToTxn as brokers send it, for version 4 and later: many transactions in one request."""
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id, producer_id=0, producer_epoch=0, verify_only=verify_only, topics=topics
    )
    return AddPartitionsToTxnRequest(transactions=[transaction] * count)


def first_partition_error(response: Any) -> int:
    """Of AddPartitionsToTxn up to version 3, and of OffsetCommit."""
    if hasattr(response, "results_by_topic_v3_and_below"):
        return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    return int(response.topics[0].partitions[0].error_code)


def end_transaction(transactional_id: str, producer: tuple[int, int], committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )
