"""A blocking connection for Fetch alone: bytes come from the socket into one buffer and are not copied again.

A fetch may be under way while the answer to the one before is being worked on. That is all of its pipelining.
"""

import socket
from typing import Any

from protocol.errors import ProtocolError
from protocol.framing import LENGTH, read_response, request_parts
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from protocol.schema import schema_of
from spark_connector.source.ranges import TopicPartition
from tallystick.client.errors import ConnectionLost, UnsupportedByBroker, check

_FETCH = schema_of(FetchRequest)
_API_VERSIONS_VERSION = 3
_LARGEST_ANSWER = 1 << 30
_WAIT_S = 30.0
"""How long a response may take on top of the requested wait; then the broker is taken for gone."""


class FetchConnection:
    """Connected by the constructor; raises `ConnectionLost` whenever there is no connection any more."""

    def __init__(self, address: tuple[str, int], client_id: str) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self.under_way = False
        """Whether an answer is still to come."""
        self._socket = socket.create_connection(address, timeout=_WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.version = self._negotiated()

    def _negotiated(self) -> int:
        request = ApiVersionsRequest(client_software_name="tallystick-spark", client_software_version="0.1.0")
        self._send(request, _API_VERSIONS_VERSION)
        answer: ApiVersionsResponse = self._receive(18, _API_VERSIONS_VERSION)
        check(answer.error_code)
        theirs = {key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys}
        common = [version for version in _FETCH.versions if version in theirs.get(_FETCH.api_key, range(0))]
        if not common:
            raise UnsupportedByBroker("Fetch in no version that is known here")
        return common[-1]

    def ask(
        self, where: TopicPartition, topic_id: bytes, offset: int, *, committed: bool, most_bytes: int, wait_ms: int
    ) -> None:
        """Send a fetch; `answer` waits for what comes back."""
        assert not self.under_way
        topic, partition = where
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=most_bytes)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=most_bytes,
            isolation_level=int(committed),
            topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])],
        )
        self._send(request, self.version)
        self.under_way = True

    def answer(self) -> PartitionData:
        """What the fetch under way has brought; the partition's error code is the caller's to look at."""
        assert self.under_way
        response: FetchResponse = self._receive(_FETCH.api_key, self.version)
        self.under_way = False
        check(response.error_code)
        return response.responses[0].partitions[0]

    def close(self) -> None:
        self._socket.close()

    def _send(self, request: object, version: int) -> None:
        self._correlation_id += 1
        try:
            self._socket.sendall(b"".join(request_parts(request, version, self._correlation_id, self._client_id)))
        except OSError as error:
            raise ConnectionLost(f"cannot send: {error}") from error

    def _receive(self, api_key: int, version: int) -> Any:
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        if not 4 <= length <= _LARGEST_ANSWER:
            raise ConnectionLost(f"an answer of {length} bytes")
        try:
            correlation_id, message = read_response(api_key, version, memoryview(self._exactly(length)))
        except ProtocolError as error:
            raise ConnectionLost(f"an answer that cannot be read: {error}") from error
        if correlation_id != self._correlation_id:
            raise ConnectionLost(f"answer {correlation_id} where {self._correlation_id} was due")
        return message

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view = memoryview(received)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError as error:
                raise ConnectionLost(f"cannot receive: {error}") from error
            if not count:
                raise ConnectionLost("closed by the broker")
            view = view[count:]
        return received
