"""Requests that are wrong in themselves, in Kafka's order and words; and what the coordinator is told of others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.described_groups import ALL_OPERATIONS
from broker.api.handlers.consumer_groups import (
    _check,
    _said,
    consumer_group_describe,
    consumer_group_heartbeat,
)
from broker.coordination.coordinators import CoordinatorError
from broker.process.time_slice import TimeSlice
from coordinator.groups.consumer.heartbeats import Said
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.topics import NAMES_MOST
from coordinator.groups.seen.listing import Shown
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
    HeartbeatTopicPartitions,
)

T = b"t" * 16
JOINING: dict[str, Any] = {
    "group_id": "g",
    "member_id": "A",
    "member_epoch": 0,
    "rebalance_timeout_ms": 5,
    "topic_partitions": [],
    "subscribed_topic_names": ["t"],
}
ASSIGNORS = ("uniform", "range")


def problem(version: int = 1, **said: Any) -> tuple[ErrorCode, str] | None:
    """Why a request is refused, if it is."""
    try:
        _check(ConsumerGroupHeartbeatRequest(**(JOINING | said)), version, ASSIGNORS)
    except Refusal as refused:
        return refused.error, refused.message
    return None


def invalid(sentence: str) -> tuple[ErrorCode, str]:
    return ErrorCode.INVALID_REQUEST, sentence


EMPTY_MEMBER, EMPTY_GROUP = invalid("MemberId can't be empty."), invalid("GroupId can't be empty.")
OWNS = [HeartbeatTopicPartitions(topic_id=T, partitions=[0])]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, None),
        ({"member_id": " ", "group_id": ""}, EMPTY_MEMBER),
        ({"group_id": "", "instance_id": " "}, EMPTY_GROUP),
        ({"instance_id": "", "rack_id": ""}, invalid("InstanceId can't be empty.")),
        ({"rack_id": "", "rebalance_timeout_ms": -1}, invalid("RackId can't be empty.")),
        (
            {"rebalance_timeout_ms": -1, "topic_partitions": None},
            invalid("RebalanceTimeoutMs must be provided in first request."),
        ),
        ({"rebalance_timeout_ms": 0}, None),
        (
            {"topic_partitions": None, "subscribed_topic_names": None},
            invalid("TopicPartitions must be empty when (re-)joining."),
        ),
        ({"topic_partitions": OWNS}, invalid("TopicPartitions must be empty when (re-)joining.")),
        (
            {"subscribed_topic_names": None},
            invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        ),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": ""}, None),
        ({"subscribed_topic_names": []}, None),
        ({"member_epoch": -2}, invalid("InstanceId can't be null.")),
        ({"member_epoch": -2, "instance_id": "one"}, None),
        ({"member_epoch": -3}, invalid("MemberEpoch is invalid.")),
        ({"member_epoch": -3, "instance_id": "one"}, invalid("MemberEpoch is invalid.")),
        ({"member_epoch": -1}, None),
        ({"member_epoch": 1, "rebalance_timeout_ms": -1, "topic_partitions": None}, None),
        ({"member_epoch": 1, "topic_partitions": OWNS}, None),
        ({"subscribed_topic_names": ["t"] * NAMES_MOST}, None),
        ({"subscribed_topic_names": ["t"] * (NAMES_MOST + 1)}, invalid("More than 10000 topics are named.")),
        ({"server_assignor": "range"}, None),
        (
            {"server_assignor": "sticky"},
            (
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
            ),
        ),
        ({"server_assignor": "sticky", "member_epoch": -3}, invalid("MemberEpoch is invalid.")),
    ],
)
def test_what_is_wrong_with_a_request(said: dict[str, Any], expected: tuple[ErrorCode, str] | None) -> None:
    assert problem(**said) == expected


@pytest.mark.parametrize(
    ("version", "epoch", "is_wrong"),
    [(0, 0, False), (0, 1, True), (0, -1, True), (0, -2, False), (1, 0, True), (1, -2, True)],
)
def test_when_a_member_needs_an_id(version: int, epoch: int, is_wrong: bool) -> None:
    found = problem(version, member_id="", member_epoch=epoch, instance_id="one")
    assert found == (EMPTY_MEMBER if is_wrong else None)


class _Groups:
    """A coordinator that answers what it is told to."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked = answer, []  # type: ignore[var-annotated]

    async def ask(self, group_id: str, operation: object) -> object:
        self.asked.append(group_id)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def services(answer: object = None, *, level: int = 1) -> Any:
    async def run_beside(work: Any) -> Any:
        return work()

    return SimpleNamespace(
        groups=_Groups(answer),
        cluster=SimpleNamespace(finalized_features={"group.version": level}),
        config=SimpleNamespace(get_list=lambda name: {"group.consumer.assignors": ASSIGNORS}[name]),
        environment=SimpleNamespace(
            run_beside=run_beside,
            random_bytes=lambda count: bytes(range(count)),
            time_slice=lambda: TimeSlice(lambda: 0.0),
        ),
    )


CONTEXT: Any = SimpleNamespace(api_version=1, client_id="client", connection=SimpleNamespace(peer_host="10.0.0.7"))


def said(**fields: Any) -> Said:
    return asyncio.run(_said(services(), CONTEXT, ConsumerGroupHeartbeatRequest(**fields)))


def test_the_coordinator_is_told_all_that_a_member_says() -> None:
    assert said(
        group_id="g",
        member_id="A",
        member_epoch=7,
        instance_id="one",
        rack_id="left",
        rebalance_timeout_ms=5,
        subscribed_topic_names=["u", "t", "u"],
        subscribed_topic_regex="(",
        server_assignor="range",
        topic_partitions=OWNS,
    ) == Said(
        "g",
        "A",
        7,
        "client",
        "/10.0.0.7",
        instance_id="one",
        rack_id="left",
        rebalance_timeout_ms=5,
        topics=frozenset(("t", "u")),
        regex="(",
        regex_problem="missing )",
        assignor="range",
        owned=[(T, [0])],
    )


def test_what_a_member_does_not_say_stays_as_it_is() -> None:
    assert said(group_id="g", member_id="A", member_epoch=7) == Said("g", "A", 7, "client", "/10.0.0.7")
    assert said(group_id="g", member_id="", member_epoch=7).member_id == ""
    assert said(group_id="g", member_id="", member_epoch=0).member_id == "00010203-0405-4607-8809-0a0b0c0d0e0f"


def _heartbeat(node: Any, **fields: Any) -> tuple[int, str | None]:
    answer = asyncio.run(consumer_group_heartbeat(node, CONTEXT, ConsumerGroupHeartbeatRequest(**(JOINING | fields))))
    return answer.error_code, answer.error_message


def test_a_heartbeat_that_is_refused_is_told_why() -> None:
    off = services(level=0)
    assert _heartbeat(off, group_id="") == (ErrorCode.UNSUPPORTED_VERSION, None)
    node = services(CoordinatorError(ErrorCode.NOT_COORDINATOR))
    assert _heartbeat(node, group_id="") == EMPTY_GROUP
    assert (off.groups.asked, node.groups.asked) == ([], [])
    assert _heartbeat(node) == (ErrorCode.NOT_COORDINATOR, None)
    assert node.groups.asked == ["g"]


def _described(node: Any, *groups: str, **fields: Any) -> list[DescribedConsumerGroup]:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), **fields)
    answer = asyncio.run(consumer_group_describe(node, CONTEXT, request))
    return answer.groups


def test_each_group_is_described_once_or_refused_by_itself() -> None:
    node = services(Shown(DescribedConsumerGroup(group_id="g")))
    found = _described(node, "g", "", "g")
    assert [(one.group_id, one.error_code) for one in found] == [("g", 0), ("", ErrorCode.INVALID_GROUP_ID)]
    assert (node.groups.asked, found[0].authorized_operations) == (["g"], -2147483648)
    refused = _described(services(CoordinatorError(ErrorCode.NOT_COORDINATOR)), "g", include_authorized_operations=True)
    assert [(one.group_id, one.error_code) for one in refused] == [("g", ErrorCode.NOT_COORDINATOR)]
    assert refused[0].authorized_operations == -2147483648
    off = services(level=0)
    assert [one.error_code for one in _described(off, "", "g")] == [ErrorCode.UNSUPPORTED_VERSION] * 2


def test_what_may_be_done_to_a_group_is_told_where_it_is_asked_for() -> None:
    node = services(Shown(DescribedConsumerGroup(group_id="g")))
    (found,) = _described(node, "g", include_authorized_operations=True)
    assert found.authorized_operations == ALL_OPERATIONS == 3400
