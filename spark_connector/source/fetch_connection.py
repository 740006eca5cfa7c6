"""A blocking connection for Fetch alone.

A fetch may be under way while the answer to the one before is being worked on. That is all of its pipelining.
"""

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.schema import schema_of
from spark_connector.access import Access
from spark_connector.source.ranges import TopicPartition
from tallystick.client.blocking_connection import BlockingConnection
from tallystick.client.errors import check

_FETCH = schema_of(FetchRequest)
_WAIT_S = 30.0
"""How long a response may take on top of the requested wait; then the broker is taken for gone."""


class FetchConnection:
    """Connected by the constructor; raises `ConnectionLost` whenever there is no connection any more."""

    def __init__(self, address: tuple[str, int], access: Access) -> None:
        self.under_way = False
        """Whether an answer is still to come."""
        self._connection = BlockingConnection(address, access.client_id, access.security(), timeout_s=_WAIT_S)
        self._version = self._connection.version_for(FetchRequest)

    @property
    def is_stale(self) -> bool:
        """Whether another connection is wanted in its place."""
        return self._connection.is_stale

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
        self._connection.send(request, self._version)
        self.under_way = True

    def answer(self) -> PartitionData:
        """What the fetch under way has brought; the partition's error code is the caller's to look at."""
        assert self.under_way
        response: FetchResponse = self._connection.receive(_FETCH.api_key, self._version)
        self.under_way = False
        check(response.error_code)
        return response.responses[0].partitions[0]

    def close(self) -> None:
        self._connection.close()
