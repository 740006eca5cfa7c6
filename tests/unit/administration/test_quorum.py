"""DescribeQuorum, UnregisterBroker, AddRaftVoter and RemoveRaftVoter: one voter, who stays. Sentences were recorded
from Kafka 4.3.1.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.api.services import Services
from protocol.codec import encode_bytes
from protocol.errors import ErrorCode
from protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    RaftVoterListener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    ReplicaState,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.unit.cluster.cluster_rig import handle, with_node

LOG = "__cluster_metadata"
DIRECTORY = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Voter:
    """Who is to vote, or to vote no more."""

    cluster_id: str | None
    voter_id: int
    directory: bytes = DIRECTORY

    async def added(self, node: Services, version: int, *, listeners: int = 1) -> Any:
        request = AddRaftVoterRequest(
            cluster_id=self.cluster_id,
            timeout_ms=1000,
            voter_id=self.voter_id,
            voter_directory_id=self.directory,
            listeners=[RaftVoterListener(name="CONTROLLER", host="127.0.0.1", port=9)] * listeners,
        )
        return await handle(node, request, version)

    async def removed(self, node: Services) -> Any:
        request = RemoveRaftVoterRequest(
            cluster_id=self.cluster_id, voter_id=self.voter_id, voter_directory_id=self.directory
        )
        return await handle(node, request, 0)


def asking(*wanted: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=name,
                partitions=[DescribeQuorumRequestPartitionData(partition_index=index) for index in indexes],
            )
            for name, indexes in wanted
        ]
    )


@pytest.mark.parametrize("version", (0, 1, 2))
def test_this_node_is_the_one_voter_and_leads_in_the_epoch_of_its_start(version: int, tmp_path: Path) -> None:
    async def story(node: Services) -> tuple[Any, int, int]:
        await node.topics.auto_create_all(["t"])
        before = node.environment.wall_ms()
        answer = await handle(node, asking((LOG, [0])), version, listener="OUTSIDE")
        assert before <= answer.topics[0].partitions[0].current_voters[0].last_fetch_timestamp
        return answer, node.cluster.epoch, node.cluster.partition.log.end_offset

    with_node(story, folder=tmp_path)
    answer, epoch, end = with_node(story, folder=tmp_path)
    (voter,) = answer.topics[0].partitions[0].current_voters
    assert (epoch, end > 5) == (1, True), "a second start"
    assert answer == DescribeQuorumResponse(
        error_code=0,
        error_message="",
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=LOG,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=0,
                        error_code=0,
                        error_message="",
                        leader_id=1,
                        leader_epoch=epoch,
                        high_watermark=end,
                        current_voters=[
                            ReplicaState(
                                replica_id=1,
                                replica_directory_id=bytes(16),
                                log_end_offset=end,
                                last_fetch_timestamp=voter.last_fetch_timestamp,
                                last_caught_up_timestamp=voter.last_fetch_timestamp,
                            )
                        ],
                        observers=[],
                    )
                ],
            )
        ],
        nodes=[
            DescribeQuorumResponseNode(
                node_id=1,
                listeners=[DescribeQuorumResponseListener(name="OUTSIDE", host="broker.example", port=19092)],
            )
        ],
    )
    assert len(encode_bytes(answer, version)) > 0


@pytest.mark.parametrize(
    "wanted",
    [
        [("t", [0])],
        [(LOG, [1])],
        [(LOG, [])],
        [(LOG, [0, 0])],
        [(LOG, [0, 1])],
        [(LOG, [0]), ("t", [0])],
        [(LOG, [0]), (LOG, [0])],
        [],
    ],
)
def test_nothing_else_has_a_quorum(wanted: list[tuple[str, list[int]]]) -> None:
    async def story(node: Services) -> Any:
        await node.topics.auto_create_all(["t"])
        return await handle(node, asking(*wanted), 2)

    topics = [
        DescribeQuorumResponseTopicData(
            topic_name=name,
            partitions=[
                DescribeQuorumResponsePartitionData(
                    partition_index=index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message="This server does not host this topic-partition.",
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=[],
                    observers=[],
                )
                for index in indexes
            ],
        )
        for name, indexes in wanted
    ]
    assert with_node(story) == DescribeQuorumResponse(error_code=0, error_message="", topics=topics, nodes=[])


@pytest.mark.parametrize("broker_id", (0, 2, -1))
def test_who_is_not_there_is_not_unregistered(broker_id: int) -> None:
    async def story(node: Services) -> Any:
        return await handle(node, UnregisterBrokerRequest(broker_id=broker_id), 0)

    assert with_node(story) == UnregisterBrokerResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {broker_id} is not currently registered",
    )


def test_the_only_broker_stays() -> None:
    async def story(node: Services) -> tuple[Any, Any]:
        answer = await handle(node, UnregisterBrokerRequest(broker_id=1), 0)
        await node.topics.auto_create_all(["t"])
        return answer, node.topics.partition("t", 0)

    answer, partition = with_node(story)
    assert answer == UnregisterBrokerResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="Broker 1 is this cluster's only one and cannot be unregistered.",
    )
    assert partition is not None


FIXED = "Cluster doesn't support {} voter because the kraft.version feature is 0"
OTHER_CLUSTER = 'The given id "another" doesn\'t match the cluster id "{}"'
NO_VOTER = "{} voter request didn't include a valid voter"


@pytest.mark.parametrize("version", (0, 1))
@pytest.mark.parametrize("own_id", (False, True))
@pytest.mark.parametrize("voter_id", (0, 1, 2))
def test_who_votes_is_fixed(version: int, own_id: bool, voter_id: int) -> None:
    async def story(node: Services) -> tuple[Any, Any]:
        voter = Voter(node.cluster_id if own_id else None, voter_id)
        return await voter.added(node, version), await voter.removed(node)

    assert with_node(story) == (
        AddRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=FIXED.format("adding")),
        RemoveRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=FIXED.format("removing")),
    )


@pytest.mark.parametrize(
    ("cluster_id", "voter_id", "directory", "error", "message"),
    [
        (None, -1, DIRECTORY, ErrorCode.INVALID_REQUEST, NO_VOTER),
        (None, 2, bytes(16), ErrorCode.INVALID_REQUEST, NO_VOTER),
        ("another", 2, DIRECTORY, ErrorCode.INCONSISTENT_CLUSTER_ID, OTHER_CLUSTER),
        ("another", -1, bytes(16), ErrorCode.INCONSISTENT_CLUSTER_ID, OTHER_CLUSTER),
        ("", 2, DIRECTORY, ErrorCode.INCONSISTENT_CLUSTER_ID, OTHER_CLUSTER.replace("another", "")),
    ],
)
def test_a_voter_of_another_cluster_and_one_that_is_none_are_refused_first(
    cluster_id: str | None, voter_id: int, directory: bytes, error: ErrorCode, message: str
) -> None:
    async def story(node: Services) -> tuple[str, Any, Any]:
        voter = Voter(cluster_id, voter_id, directory)
        return node.cluster_id, await voter.added(node, 1, listeners=0), await voter.removed(node)

    own, added, removed = with_node(story)
    of_a_cluster = error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert (added.error_code, added.error_message) == (error, message.format(own if of_a_cluster else "Add"))
    assert (removed.error_code, removed.error_message) == (error, message.format(own if of_a_cluster else "Remove"))


def test_a_voter_is_reached_somewhere() -> None:
    async def story(node: Services) -> Any:
        return await Voter(None, 2).added(node, 1, listeners=0)

    assert with_node(story) == AddRaftVoterResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message="Add voter request didn't include an endpoint"
    )
