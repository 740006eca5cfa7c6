"""Asking share coordinators in other nodes: what is kept of share partitions in the partitions of `__share_group_state`
that this node does not lead (KIP-932).

Whatever time cures is answered with an error that who asks repeats; the metadata may name another leader by then.
"""

from typing import Any

from broker.coordination.across_nodes.nodes import Nodes
from broker.coordination.across_nodes.share_state_requests import (
    DELETE,
    INITIALIZE,
    READ,
    SUMMARIZE,
    WRITE,
    Own,
    ShareStateRequests,
)
from broker.coordination.topics import TopicDirectory
from broker.peers.port import Peers
from coordinator.share_state.answers import Summary, Verdict
from coordinator.share_state.kept import UNKNOWN_COUNT, ShareKey, Write
from coordinator.share_state.port import PartitionState
from coordinator.share_state.port import StateBatch as Batch
from protocol.errors import ErrorCode
from protocol.internal_topics import SHARE_GROUP_STATE
from protocol.messages.share.state import (
    DeletePartitionData,
    InitializePartitionData,
    ReadPartitionData,
    StateBatch,
    SummaryPartitionData,
    WritePartitionData,
)


class PeerShareState:
    """The way to the share coordinators in other nodes."""

    def __init__(self, nodes: Nodes, topics: TopicDirectory, peers: Peers, own: Own) -> None:
        self._nodes = nodes
        self._topics = topics
        self._requests = ShareStateRequests(peers, own)

    @property
    def has_begun(self) -> bool:
        """Whether there is a topic that something can be kept in."""
        return self._topics.by_name(SHARE_GROUP_STATE) is not None

    def at(self, index: int) -> "ShareStateAt | None":
        """Who keeps what is in this partition; None where this node does, or there is no topic yet."""
        if not self.has_begun:
            return None
        leader, _ = self._topics.leader(SHARE_GROUP_STATE, index)
        return None if leader == self._nodes.node_id else ShareStateAt(leader, self._requests)


class ShareStateAt:
    """The share coordinator in one other node. Every answer may be an error; nothing is raised."""

    def __init__(self, leader: int, requests: ShareStateRequests) -> None:
        self._leader = leader
        self._requests = requests

    async def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> Verdict:
        """Begin anew with a share partition."""
        data = InitializePartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        return _verdict(await self._requests.ask(self._leader, INITIALIZE, key, data))

    async def read(self, key: ShareKey, leader_epoch: int) -> PartitionState | Verdict:
        """All that is kept of a share partition, but how many deliveries are complete: the answer has no room for it,
        and who leads the partition counts anew."""
        data = ReadPartitionData(partition=key.partition, leader_epoch=leader_epoch)
        told = await self._requests.ask(self._leader, READ, key, data)
        verdict = _verdict(told)
        if verdict.error:
            return verdict
        batches = tuple(
            Batch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in told.state_batches
        )
        return PartitionState(told.state_epoch, told.start_offset, UNKNOWN_COUNT, batches)

    async def write(self, key: ShareKey, state_epoch: int, change: Write) -> Verdict:
        """Keep a change."""
        data = WritePartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            state_batches=[
                StateBatch(
                    first_offset=one.first_offset,
                    last_offset=one.last_offset,
                    delivery_state=one.delivery_state,
                    delivery_count=one.delivery_count,
                )
                for one in change.batches
            ],
        )
        return _verdict(await self._requests.ask(self._leader, WRITE, key, data))

    async def summarize(self, key: ShareKey) -> Summary | Verdict:
        """How far a share partition is."""
        data = SummaryPartitionData(partition=key.partition, leader_epoch=-1)
        told = await self._requests.ask(self._leader, SUMMARIZE, key, data)
        verdict = _verdict(told)
        if verdict.error:
            return verdict
        return Summary(told.state_epoch, told.leader_epoch, told.start_offset, told.delivery_complete_count)

    async def delete(self, key: ShareKey) -> Verdict:
        """Keep nothing of a share partition any more."""
        data = DeletePartitionData(partition=key.partition)
        return _verdict(await self._requests.ask(self._leader, DELETE, key, data))


def _verdict(told: Any) -> Verdict:
    """An error as it is said of a share partition. That the other node does not lead (any more) passes, where to this
    node NOT_COORDINATOR says that there is no topic."""
    if isinstance(told, ErrorCode):
        return Verdict(told)
    error = ErrorCode(told.error_code)
    if error is ErrorCode.NOT_COORDINATOR:
        return Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Verdict(error, told.error_message)
