"""ElectLeaders and reassignments of partitions in a cluster of one broker. Sentences were recorded from Kafka 4.3.1."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.handlers.administration import placement
from broker.api.services import Services
from broker.process.time_slice import TimeSlice
from protocol.codec import encode_bytes
from protocol.errors import ErrorCode
from protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from tests.harness.work_clock import WorkClock
from tests.unit.cluster.cluster_rig import handle, with_node

NOT_NEEDED, UNKNOWN = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
INVALID, LATE, WRONG = ErrorCode.INVALID_REQUEST, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REPLICA_ASSIGNMENT
NEEDLESS = "Leader election not needed for topic partition."
MANUAL = "The manual partition assignment includes"
Refusal = tuple[int, int, str | None]


def answers_to(*requests: Any, version: int) -> list[Any]:
    """Of a broker with `t` and `u`, of two partitions each."""

    async def story(node: Services) -> list[Any]:
        for name in ("t", "u"):
            await node.topics.auto_create_all([name])
        return [await handle(node, request, version) for request in requests]

    answers = with_node(story)
    assert all(encode_bytes(answer, version) for answer in answers)
    return answers


def electing(*wanted: tuple[str, list[int]], **fields: Any) -> ElectLeadersRequest:
    topics = [ElectLeadersRequestTopicPartitions(topic=name, partitions=indexes) for name, indexes in wanted]
    return ElectLeadersRequest(topic_partitions=topics, **fields)


def elected(*topics: tuple[str, list[Refusal]], error: int = 0) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=name,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index, code, message in partitions
                ],
            )
            for name, partitions in topics
        ],
    )


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_every_partition_has_its_leader(version: int, kind: int) -> None:
    named, all_of_them, none = answers_to(
        electing(("t", [0, 9, 1, 0]), ("ghost", [0]), ("u", []), ("t", [-1]), election_type=kind),
        ElectLeadersRequest(topic_partitions=None, election_type=kind),
        electing(election_type=kind, timeout_ms=0),
        version=version,
    )
    needless = (NOT_NEEDED, NEEDLESS)
    assert named == elected(
        ("t", [(0, *needless), (9, UNKNOWN, "No such partition as t-9"), (1, *needless), (0, *needless)]),
        ("ghost", [(0, UNKNOWN, "No such topic as ghost")]),
        ("u", []),
        ("t", [(-1, UNKNOWN, "No such partition as t--1")]),
    )
    assert all_of_them == elected(("t", []), ("u", []))
    assert none == elected()


@pytest.mark.parametrize("version", (1, 2))
def test_there_are_two_types_of_elections(version: int) -> None:
    named, negative, all_of_them, none = answers_to(
        electing(("t", [0]), ("ghost", [3]), election_type=2),
        electing(("t", [0]), election_type=-1),
        ElectLeadersRequest(topic_partitions=None, election_type=2),
        electing(election_type=2),
        version=version,
    )
    unknown = "Unknown election type 2"
    assert named == elected(("t", [(0, INVALID, unknown)]), ("ghost", [(3, INVALID, unknown)]), error=INVALID)
    assert negative == elected(("t", [(0, INVALID, "Unknown election type -1")]), error=INVALID)
    assert all_of_them == elected(error=INVALID)
    assert none == elected()


def test_an_election_whose_time_is_over_before_it_begins_is_not_held() -> None:
    at_once, past, of_no_type, all_of_them, soon = answers_to(
        electing(("t", [0]), ("ghost", [0]), timeout_ms=0),
        electing(("t", [0]), timeout_ms=-1),
        electing(("t", [0]), timeout_ms=0, election_type=5),
        ElectLeadersRequest(topic_partitions=None, timeout_ms=0),
        electing(("t", [0]), timeout_ms=1),
        version=2,
    )
    assert at_once == elected(("t", [(0, LATE, None)]), ("ghost", [(0, LATE, None)]), error=LATE)
    assert past == of_no_type == elected(("t", [(0, LATE, None)]), error=LATE)
    assert all_of_them == elected(error=LATE)
    assert soon == elected(("t", [(0, NOT_NEEDED, NEEDLESS)]))


Wanted = tuple[int, list[int] | None]


def reassigning(*wanted: tuple[str, list[Wanted]], **fields: Any) -> AlterPartitionReassignmentsRequest:
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in parts],
        )
        for name, parts in wanted
    ]
    return AlterPartitionReassignmentsRequest(topics=topics, **fields)


def reassigned(
    *topics: tuple[str, list[Refusal]], error: int = 0, message: str | None = None, may_change: bool = True
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=may_change,
        error_code=error,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=name,
                partitions=[
                    ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=told)
                    for index, code, told in partitions
                ],
            )
            for name, partitions in topics
        ],
    )


@pytest.mark.parametrize("version", (0, 1))
def test_the_replica_that_is_there_is_accepted_and_nothing_is_under_way(version: int) -> None:
    named, fixed, none = answers_to(
        reassigning(("t", [(0, [1]), (1, None), (9, [1]), (-1, None), (0, None)]), ("ghost", [(0, [1]), (1, None)])),
        reassigning(("t", [(0, [1])]), ("t", []), allow_replication_factor_change=False),
        reassigning(timeout_ms=0, allow_replication_factor_change=False),
        version=version,
    )
    missing, topic = "Unable to find partition t:", "Unable to find a topic named ghost."
    ended = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    assert named == reassigned(
        ("t", [(0, 0, None), (1, *ended), (9, UNKNOWN, f"{missing}9."), (-1, UNKNOWN, f"{missing}-1."), (0, *ended)]),
        ("ghost", [(0, UNKNOWN, topic), (1, UNKNOWN, topic)]),
    )
    assert fixed == reassigned(("t", [(0, 0, None)]), ("t", []), may_change=False)
    assert none == reassigned(message="")


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        ([], f"{MANUAL} an empty replica list."),
        ([2], f"{MANUAL} broker 2, but no such broker is registered."),
        ([1, 2], f"{MANUAL} broker 2, but no such broker is registered."),
        ([3, 2], f"{MANUAL} broker 2, but no such broker is registered."),
        ([2, 2], f"{MANUAL} broker 2, but no such broker is registered."),
        ([0, 1, 1], f"{MANUAL} broker 0, but no such broker is registered."),
        ([1, 5, -3, 1], f"{MANUAL} broker -3, but no such broker is registered."),
        ([1, 1], f"{MANUAL} the broker 1 more than once."),
        ([2, 1, 1], f"{MANUAL} the broker 1 more than once."),
    ],
)
def test_no_other_broker_can_have_a_partition(replicas: list[int], sentence: str) -> None:
    (answer,) = answers_to(reassigning(("t", [(0, replicas), (1, [1])])), version=1)
    assert answer == reassigned(("t", [(0, WRONG, sentence), (1, 0, None)]))


def test_a_reassignment_whose_time_is_over_before_it_begins_is_not_made() -> None:
    at_once, soon = answers_to(
        reassigning(("t", [(0, [1])]), ("ghost", [(4, None)]), timeout_ms=0, allow_replication_factor_change=False),
        reassigning(("t", [(0, [1])]), timeout_ms=1),
        version=1,
    )
    assert at_once == reassigned(("t", [(0, LATE, None)]), ("ghost", [(4, LATE, None)]), error=LATE)
    assert soon == reassigned(("t", [(0, 0, None)]))


def test_no_reassignment_is_listed() -> None:
    named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 7]) for name in ("t", "ghost")]
    requests = (ListPartitionReassignmentsRequest(topics=topics, timeout_ms=0) for topics in (None, [], named))
    nothing = ListPartitionReassignmentsResponse(throttle_time_ms=0, error_code=0, error_message=None, topics=[])
    assert answers_to(*requests, version=0) == [nothing] * 3


def test_many_partitions_are_given_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of the loop has its records to make, however many a request names."""
    monkeypatch.setattr(placement, "GIVEN_AT_ONCE", 3)
    elected: list[int] = []

    async def ask(operation: Any) -> int:
        machine = SimpleNamespace(elect=lambda ticket, named: elected.append(len(named)))
        operation(machine, None)
        return elected[-1]

    nodes = SimpleNamespace(
        is_alone=False,
        reached=lambda listener: [SimpleNamespace(node_id=node) for node in (1, 2)],
        leader=lambda topic_id, index: (1 + index % 2, 0),
    )
    topic = SimpleNamespace(partitions=range(20), topic_id=b"t" * 16)
    services: Any = SimpleNamespace(
        environment=SimpleNamespace(time_slice=lambda: TimeSlice(WorkClock().now)),
        nodes=nodes,
        topics=SimpleNamespace(by_name=lambda name: topic),
        cluster=SimpleNamespace(leads=True, ask=ask),
    )
    context: Any = SimpleNamespace(connection=SimpleNamespace(listener="L"))
    request = reassigning(("t", [(index, [2]) for index in range(20)]))
    answer = asyncio.run(placement.alter_partition_reassignments(services, context, request))
    assert {one.error_code for one in answer.responses[0].partitions} == {0}
    assert elected == [3, 3, 3, 1], "those that node 2 leads already are left alone"
