"""The journal of a whole node: whose doing a record of the coordinator is, and a node that has none."""

import asyncio
from typing import Any

import pytest

from broker.api.context import ConnectionInfo
from broker.api.dispatch import Dispatcher
from broker.api.noted.answers import JournalOff, fences, lint, open_transactions, timeline
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.node import Node
from broker.process.eager import Finished
from broker.process.environment import RealEnvironment
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.harness.framing import request_frame


class Asking:
    """Clients of a node, each on a connection of its own."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.dispatcher = Dispatcher(node.services, node.catalogue)
        self.connections: dict[str, ConnectionInfo] = {}

    async def ask(self, client_id: str, request: object, version: int) -> Any:
        number = len(self.connections) + 1
        connection = self.connections.setdefault(client_id, ConnectionInfo(number, "PLAINTEXT", "10.0.0.1", number))
        call = self.dispatcher.read(connection, request_frame(request, version, 1, client_id)[4:])
        result = self.dispatcher.run(call)
        if asyncio.iscoroutine(result):
            begun = self.node.begin(result)
            result = begun.value if isinstance(begun, Finished) else await begun
        return result


async def in_a_node(story: Any, **settings: str) -> None:
    environment = RealEnvironment(None)
    known = {"tallystick.in.memory": "true", "num.partitions": "2", "tallystick.http": "127.0.0.1:0"}
    node = Node(BrokerConfig(known | {name.replace("__", "."): text for name, text in settings.items()}), environment)
    services = await node.start()
    try:
        for topic in ("__transaction_state", "__consumer_offsets"):
            await services.topics.ensure_internal(topic)
        await services.topics.auto_create_all(["t"])
        await asyncio.wait_for(story(services, Asking(node)), 30)
    finally:
        await node.stop()
        environment.close()


async def begun(clients: Asking, client_id: str = "first", name: str = "tx") -> Any:
    """An open transaction over both partitions."""
    identity = await clients.ask(
        client_id, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4
    )
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
    )
    await clients.ask(client_id, added, 3)
    return identity


def ending(identity: Any, *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id="tx",
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=commit,
    )


def joining(session_timeout_ms: int = 60_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def committing(member_id: str, generation: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return OffsetCommitRequest(
        group_id="g", member_id=member_id, generation_id_or_member_epoch=generation, topics=[topic]
    )


def committing_in_tx(stamp: dict[str, int]) -> TxnOffsetCommitRequest:
    """As clients from before KIP-447 do: of no generation."""
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    return TxnOffsetCommitRequest(transactional_id="tx", group_id="g", **stamp, topics=[topic])


def error_of(response: OffsetCommitResponse | TxnOffsetCommitResponse) -> int:
    return response.topics[0].partitions[0].error_code


def test_each_record_of_the_coordinator_has_its_request() -> None:
    async def story(services: Services, clients: Asking) -> None:
        identity = await begun(clients)
        end = ending(identity, commit=True)
        assert (await clients.ask("first", end, 5)).error_code == ErrorCode.NONE
        await services.transactions.wait_until_completed("tx", 10)
        said = timeline(services, "tx")
        numbers = {event["number"]: event["api"] for event in said["events"] if event["is"] == "request"}
        reasons = [(one["state"], numbers.get(one["request"])) for one in said["events"] if one["is"] == "state"]
        assert reasons[:3] == [
            ("Empty", "InitProducerId"),
            ("Ongoing", "AddPartitionsToTxn"),
            ("PrepareCommit", "EndTxn"),
        ]
        assert reasons[3][0] == "CompleteCommit"
        assert said["transactionVersion"] == 2
        (markers,) = [event for event in said["events"] if event["is"] == "markers"]
        assert (markers["commit"], markers["count"]) == (True, 2)
        assert services.journal is not None and services.journal.current is None

    asyncio.run(in_a_node(story))


def test_an_operator_is_named_who_aborted() -> None:
    async def story(services: Services, clients: Asking) -> None:
        identity = await begun(clients)
        marker = WritableTxnMarker(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=services.epoch,
        )
        await clients.ask("operator", WriteTxnMarkersRequest(markers=[marker]), 1)
        late = ending(identity, commit=True)
        assert (await clients.ask("first", late, 4)).error_code == ErrorCode.PRODUCER_FENCED
        said = fences(services, "tx")
        raised, refused = said["raised"][-1], said["refused"][-1]
        assert (raised["because"], raised["api"]) == ("aborted by an operator", "WriteTxnMarkers")
        assert [said["clients"][one["client"]]["clientId"] for one in (raised, refused)] == ["operator", "first"]

    asyncio.run(in_a_node(story))


def test_what_is_open_is_said_oldest_first_with_its_holder() -> None:
    async def story(services: Services, clients: Asking) -> None:
        for number in range(3):
            await begun(clients, f"client{number}", f"tx{number}")
        said = await open_transactions(services)
        found = {one["transactionalId"]: one["client"]["clientId"] for one in said["transactions"]}
        assert found == {f"tx{number}": f"client{number}" for number in range(3)}
        assert said["more"] == 0
        starts = [one["startedAt"] for one in said["transactions"]]
        assert starts == sorted(starts)
        assert {one["state"] for one in said["transactions"]} == {TransactionState.ONGOING.wire_name}
        assert all(0 < one["leftMs"] <= 60_000 and one["partitions"] == 2 for one in said["transactions"])

    asyncio.run(in_a_node(story))


def test_a_request_that_is_cancelled_leaves_the_journal_in_order() -> None:
    async def story(services: Services, clients: Asking) -> None:
        identity = await begun(clients)
        end = ending(identity, commit=False)
        waiting = asyncio.ensure_future(clients.ask("first", end, 4))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await services.transactions.wait_until_completed("tx", 10)
        assert services.journal is not None and services.journal.current is None
        assert [one["state"] for one in timeline(services, "tx")["events"] if one["is"] == "state"][
            -1
        ] == "CompleteAbort"

    asyncio.run(in_a_node(story))


def test_what_was_refused_is_nobodys_habit() -> None:
    """Only what a group took counts: of plain commits, of those in transactions, and of members."""

    async def story(services: Services, clients: Asking) -> None:
        async def rules() -> dict[str, int]:
            return {one["rule"]: one["count"] for one in (await lint(services))["findings"]}

        joined = await clients.ask("first", joining(), 3)
        known = {"group_id": "g", "member_id": joined.member_id}
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        syncing = SyncGroupRequest(**known, generation_id=joined.generation_id, assignments=[assignment])
        assert (await clients.ask("first", syncing, 3)).error_code == ErrorCode.NONE
        identity = await begun(clients)
        stamp = {"producer_id": identity.producer_id, "producer_epoch": identity.producer_epoch}
        adding = AddOffsetsToTxnRequest(transactional_id="tx", group_id="g", **stamp)
        assert (await clients.ask("first", adding, 3)).error_code == ErrorCode.NONE
        refused = committing("late", joined.generation_id)
        assert error_of(await clients.ask("first", refused, 8)) == ErrorCode.UNKNOWN_MEMBER_ID
        zombie = committing_in_tx({**stamp, "producer_epoch": -1})
        assert error_of(await clients.ask("first", zombie, 2)) != ErrorCode.NONE
        assert await rules() == {}
        assert error_of(await clients.ask("first", committing_in_tx(stamp), 2)) == ErrorCode.NONE
        assert await rules() == {"offsets-without-generation": 1}
        taken = committing(joined.member_id, joined.generation_id)
        assert error_of(await clients.ask("first", taken, 8)) == ErrorCode.NONE
        assert await rules() == {"offsets-without-generation": 1, "auto-commit-beside-transactions": 1}
        assert (await clients.ask("first", joining(1), 3)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert "transaction-outlives-session" not in await rules(), "nobody was let in with it"

    asyncio.run(in_a_node(story))


@pytest.mark.parametrize("setting", ["tallystick__journal__bytes=0", "tallystick__http="])
def test_a_node_without_a_journal_says_so(setting: str) -> None:
    async def story(services: Services, clients: Asking) -> None:
        await begun(clients)
        assert services.journal is None
        for look in (lambda: timeline(services, "tx"), lambda: fences(services, "tx")):
            with pytest.raises(JournalOff, match="switched off"):
                look()
        for ask in (lint, open_transactions):
            with pytest.raises(JournalOff):
                await ask(services)

    name, _, text = setting.partition("=")
    asyncio.run(in_a_node(story, **{name: text}))
