"""Changes of the metadata that another node decides."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordination.across_nodes import forwarding
from broker.coordination.across_nodes.forwarding import LEAST_PATIENCE_MS, NOT_LET, Controller
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.leaders import NOBODY
from protocol.errors import ErrorCode
from protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.unit.across_nodes.rig import ME, OTHER, THIRD, FakePeers

TOPIC = CreatableTopic(name="t", num_partitions=3, replication_factor=1, assignments=[], configs=[])


class World:
    """`controllers` are who controls, each time that is looked at; the last one stays."""

    def __init__(self, controllers: list[int], answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(forwarding, "PAUSE_S", 0.0)
        self._controllers = controllers
        self.now_ms = 0
        self.times_caught_up = 0
        self.peers = FakePeers(answer)
        environment: Any = SimpleNamespace(monotonic_ms=self._time)
        self.silent_ms = 9_000
        nodes: Any = self
        self.controller = Controller(nodes, self.peers, environment, silent_ms=lambda: self.silent_ms)

    node_id = ME

    @property
    def controller_id(self) -> int:
        return self._controllers.pop(0) if len(self._controllers) > 1 else self._controllers[0]

    async def caught_up(self) -> None:
        self.times_caught_up += 1

    def _time(self) -> int:
        self.now_ms += 100
        return self.now_ms

    def create(self) -> Any:
        return asyncio.run(self.controller.create([TOPIC], validate_only=False))


def made(error: ErrorCode = ErrorCode.NONE) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name="t", error_code=error, error_message=None, configs=[])]
    )


def test_the_controller_is_asked_and_what_it_made_is_known_here_then(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([OTHER], lambda node, request: made(), monkeypatch)
    assert world.create() == made().topics
    ((node, request, version),) = world.peers.asked
    assert (node, request.topics, request.validate_only, version) == (OTHER, [TOPIC], False, 7)
    assert world.times_caught_up == 1


def test_one_that_takes_over_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {OTHER: None, THIRD: made()}
    world = World([NOBODY, OTHER, NOBODY, THIRD], lambda node, request: answers[node], monkeypatch)
    assert world.create() == made().topics
    assert [node for node, _, _ in world.peers.asked] == [OTHER, THIRD]


def test_who_is_the_controller_no_more_has_done_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {OTHER: made(ErrorCode.NOT_CONTROLLER), THIRD: made(ErrorCode.TOPIC_ALREADY_EXISTS)}
    world = World([OTHER, THIRD], lambda node, request: answers[node], monkeypatch)
    assert world.create() == made(ErrorCode.TOPIC_ALREADY_EXISTS).topics
    assert world.times_caught_up == 1


@pytest.mark.parametrize(("silent_ms", "waited_ms"), [(1_000, LEAST_PATIENCE_MS), (9_000, 15_000), (60_000, 66_000)])
def test_it_is_waited_for_until_one_that_died_is_replaced_and_no_longer(
    silent_ms: int, waited_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World([NOBODY], lambda node, request: made(), monkeypatch)
    world.silent_ms = silent_ms
    with pytest.raises(CoordinatorError) as refused:
        world.create()
    assert refused.value.error is ErrorCode.NOT_CONTROLLER
    assert waited_ms <= world.now_ms <= waited_ms + 200 and world.peers.asked == []


def test_who_becomes_it_asks_nobody_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([OTHER, NOBODY, ME], lambda node, request: None, monkeypatch)
    assert world.create() is None
    assert [node for node, _, _ in world.peers.asked] == [OTHER]


def test_topics_are_deleted_by_name_and_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = DeleteTopicsResponse(responses=[DeletableTopicResult(name="t", topic_id=b"t" * 16)])
    world = World([OTHER], lambda node, request: gone, monkeypatch)
    wanted = [DeleteTopicState(name=None, topic_id=b"t" * 16)]
    assert asyncio.run(world.controller.delete(wanted)) == gone.responses
    ((_, request, version),) = world.peers.asked
    assert (request.topics, version) == (wanted, 6)


def test_what_the_controller_does_not_let_this_node_ask_for_is_no_matter_of_the_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have it, and goes to the controller. The log says once, for each kind of request, what the cause is."""
    denied, none, other = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS
    topics = [
        CreatableTopicResult(name=name, error_code=error, error_message=error.name, configs=[])
        for name, error in (("a", none), ("b", denied), ("c", other))
    ]
    quorum = DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, topics=[])
    made_now = CreateTopicsResponse(topics=topics)
    answers: list[Any] = [made_now, quorum, made(denied), made(), made(denied)]
    world = World([OTHER], lambda node, request: answers.pop(0), monkeypatch)
    assert world.create() is topics
    assert [one.error_code for one in topics] == [none, ErrorCode.NOT_CONTROLLER, other]
    assert [one.error_message for one in topics] == ["NONE", NOT_LET, "INVALID_PARTITIONS"]
    told = asyncio.run(world.controller.ask(DescribeQuorumRequest(topics=[]), 2, DescribeQuorumResponse))
    assert told is quorum and (quorum.error_code, quorum.error_message) == (ErrorCode.NOT_CONTROLLER, NOT_LET)
    for expected in (ErrorCode.NOT_CONTROLLER, none, ErrorCode.NOT_CONTROLLER):
        assert [one.error_code for one in world.create()] == [expected]
    logged = [vars(one)["fields"] for one in caplog.records]
    creating = {"node": OTHER, "of": "CreateTopics"}
    assert logged == [creating, {"node": OTHER, "of": "DescribeQuorum"}, creating]
