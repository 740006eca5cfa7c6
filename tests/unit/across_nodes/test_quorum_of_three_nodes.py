"""DescribeQuorum, asked of each of three nodes: one votes, and the others that serve follow."""

from dataclasses import dataclass
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.internal_topics import CLUSTER_METADATA
from protocol.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    ReplicaState,
)
from tests.unit.across_nodes.three_nodes import ThreeNodes, until, with_three_nodes

PARTITION = DescribeQuorumRequestPartitionData(partition_index=0)
REQUEST = DescribeQuorumRequest(
    topics=[DescribeQuorumRequestTopicData(topic_name=CLUSTER_METADATA, partitions=[PARTITION])]
)
NOBODY_LEADS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER)


@dataclass(frozen=True, slots=True)
class Told:
    """What one node says."""

    leader: int
    epoch: int
    voters: list[ReplicaState]
    observers: list[ReplicaState]
    reached: list[tuple[int, int]]
    """The voters' ids and ports."""

    @property
    def followers(self) -> list[int]:
        return [one.replica_id for one in self.observers]


async def told(nodes: ThreeNodes, asked: int, version: int = 2) -> Told:
    """When somebody leads."""
    while True:
        answer = await nodes.answer_of(asked, REQUEST, version)
        (partition,) = answer.topics[0].partitions
        if partition.error_code not in NOBODY_LEADS:
            break
    assert (answer.error_code, partition.error_code) == (0, 0)
    reached = [(one.node_id, listener.port) for one in answer.nodes for listener in one.listeners]
    return Told(partition.leader_id, partition.leader_epoch, partition.current_voters, partition.observers, reached)


def test_each_node_names_the_controller_and_those_that_follow(tmp_path: Path) -> None:
    async def story(nodes: ThreeNodes) -> None:
        await until(lambda: all(len(one.nodes.reached("PLAINTEXT")) == 3 for one in nodes.by_id.values()))
        brokers = nodes.by_id[nodes.controller].cluster.image.brokers
        for asked in nodes.by_id:
            found = await told(nodes, asked)
            assert found.leader == nodes.controller
            (voter,) = found.voters
            assert voter.replica_id == nodes.controller and voter.log_end_offset > 0
            assert found.observers == [
                ReplicaState(
                    replica_id=node_id,
                    replica_directory_id=brokers[node_id].registration.log_dirs[0],
                    log_end_offset=-1,
                    last_fetch_timestamp=-1,
                    last_caught_up_timestamp=-1,
                )
                for node_id in nodes.others()
            ]
            assert len({one.replica_directory_id for one in found.observers} | {bytes(16)}) == 3
            port = nodes.by_id[nodes.controller].endpoints["PLAINTEXT"].port
            assert found.reached == [(nodes.controller, port)]
            assert (await told(nodes, asked, version=0)).followers == nodes.others()

    with_three_nodes(story, tmp_path)


def test_when_the_controller_has_died_another_is_named_and_it_is_nowhere(tmp_path: Path) -> None:
    async def story(nodes: ThreeNodes) -> None:
        killed = nodes.controller
        before = await told(nodes, killed)
        await nodes.together.kill(killed)
        await until(lambda: any(one.nodes.controller_id == node_id for node_id, one in nodes.by_id.items()))
        controller = nodes.controller
        await until(lambda: nodes.by_id[controller].cluster.image.brokers[killed].fenced)
        for asked in nodes.by_id:
            found = await told(nodes, asked)
            assert found.leader == controller != killed
            assert found.epoch > before.epoch
            assert found.followers == nodes.others()
            assert killed not in {one.replica_id for one in found.voters}
        await nodes.together.start_again(killed)
        assert (await told(nodes, killed)).followers == sorted(nodes.by_id.keys() - {controller})

    with_three_nodes(story, tmp_path)
