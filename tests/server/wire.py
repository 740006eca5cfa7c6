"""Raw sockets towards the server, for what no client would send."""

import socket
import ssl
from struct import pack, unpack

from protocol.codec import decode
from protocol.framing import RESPONSES
from protocol.messages.metadata import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.schema import schema_of
from tallystick import Broker
from tests.harness.framing import request_frame

SECONDS = 10.0


class Wire:
    """A socket with the framing of Kafka, and no manners."""

    def __init__(self, broker: Broker, *, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(SECONDS)
        self.socket.connect((host, int(port)))
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def closed(self) -> bool:
        """Whether the server closes the connection without another byte; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def frame(self) -> bytes:
        """The next whole answer, without its length."""
        (length,) = unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the server closed the connection"
            data += piece
        return data

    def ask(self, request: object, version: int, *, client_id: str | None = "wire") -> object:
        self.send(request_frame(request, version, 1, client_id))
        return self.answer(type(request), version)

    def answer(self, request: type, version: int) -> object:
        """The next answer, which is to a request of this kind and version."""
        schema = schema_of(request)
        flexible = version >= schema.flexible_since and schema.api_key != 18
        return decode(RESPONSES[schema.api_key], version, self.frame(), 5 if flexible else 4)[0]


def still_serves(broker: Broker) -> None:
    """Somebody else is not disturbed."""
    with Wire(broker) as wire:
        answer = wire.ask(ApiVersionsRequest(), 0)
        assert answer.error_code == 0 and answer.api_keys  # type: ignore[attr-defined]


def make_topic(broker: Broker, name: str) -> None:
    with Wire(broker) as wire:
        answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 4)
        assert answer.topics[0].error_code == 0  # type: ignore[attr-defined]


def produce(
    topic: str, records: bytes | None, *, acks: int = -1, index: int = 0, transactional_id: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])],
    )


def header(key: int, version: int, correlation_id: int = 7) -> bytes:
    """A request header v1 without client id."""
    return pack(">hhih", key, version, correlation_id, -1)


def framed(data: bytes) -> bytes:
    return pack(">i", len(data)) + data
