"""Asking the coordinator of a transactional id that another node has: AddPartitionsToTxn in its form for brokers."""

from collections.abc import Sequence

from broker.coordination.across_nodes.denials import Denials
from broker.coordination.across_nodes.nodes import Nodes
from broker.coordination.coordinators import CoordinatorError
from broker.peers.port import Peers, PeerUnreachable
from coordinator.cluster.leaders import NOBODY
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import TopicPartitions
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ADD_PARTITIONS_TO_TXN = 5
"""The version that nodes speak among each other."""

Answers = dict[tuple[str, int], ErrorCode]


class PeerGate:
    """The way to coordinators in other nodes."""

    def __init__(self, nodes: Nodes, peers: Peers) -> None:
        self._nodes = nodes
        self._peers = peers
        self._denials = Denials("AddPartitionsToTxn")

    async def ask(
        self,
        leader: int,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartitions],
        *,
        adds: bool,
    ) -> Answers:
        """What the coordinator in that node says of each partition: whether it belongs to the open transaction, or was
        added to it. Raises `CoordinatorError`."""
        if leader in (NOBODY, self._nodes.node_id):
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        topics = [AddPartitionsToTxnTopic(name=one.topic, partitions=list(one.partitions)) for one in partitions]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=not adds,
            topics=topics,
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        try:
            response = await self._peers.ask(leader, request, ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnResponse)
        except PeerUnreachable as unreachable:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from unreachable
        self._denials.answered(leader, response.error_code)
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise CoordinatorError(ErrorCode.INVALID_TXN_STATE)  # As in Kafka: it is not the client that is denied.
        if response.error_code:
            raise CoordinatorError(ErrorCode(response.error_code))
        return {
            (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
            for one in response.results_by_transaction
            for topic in one.topic_results
            for result in topic.results_by_partition
        }
