"""Responses of the APIs of transactions, field by field, at the limits of what they take."""

import asyncio
from typing import Any

import pytest

from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    TopicData,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.transactions.node_rig import ask, end, in_a_node, init, produce

LONGEST_MS = 900_000
"""transaction.max.timeout.ms"""


def refused(error: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def test_init_producer_id(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        async def asked(version: int = 5, **fields: Any) -> Any:
            request = {"transactional_id": "tx", "transaction_timeout_ms": 60_000} | fields
            return await ask(node, InitProducerIdRequest(**request), version)

        first = await asked()
        assert first == InitProducerIdResponse(producer_id=first.producer_id, producer_epoch=0)
        mine = {"producer_id": first.producer_id, "producer_epoch": 0}
        assert await asked(**mine) == InitProducerIdResponse(producer_id=first.producer_id, producer_epoch=1)
        assert await asked(**mine) == InitProducerIdResponse(producer_id=first.producer_id, producer_epoch=1)
        stranger = mine | {"producer_id": first.producer_id + 500}
        assert [(await asked(version, **stranger)) for version in (3, 4)] == [refused(47), refused(90)]
        assert await asked(producer_id=5) == await asked(producer_epoch=5) == refused(42)
        assert await asked(transactional_id=None, producer_id=5) == refused(42)
        assert await asked(transactional_id="") == refused(42)
        for timeout_ms in (-1, 0, LONGEST_MS + 1):
            assert await asked(transaction_timeout_ms=timeout_ms) == refused(50)
        for timeout_ms in (1, LONGEST_MS):
            assert (await asked(transaction_timeout_ms=timeout_ms)).error_code == 0
            transaction = node.transactions.transaction_of("tx")
            assert transaction is not None and transaction.timeout_ms == timeout_ms
        plain = await asked(transactional_id=None, producer_id=5, producer_epoch=3, transaction_timeout_ms=0)
        assert plain == InitProducerIdResponse(producer_id=plain.producer_id, producer_epoch=0)
        assert plain.producer_id > first.producer_id
        monkeypatch.setattr(node.producer_ids, "take", lambda: None)
        assert await asked(transactional_id=None) == await asked(transactional_id="new") == refused(14)

    in_a_node(story, tmp_path)


def of_partitions(*errors: tuple[str, int, int]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for topic, index, error in errors:
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        topics.setdefault(topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=some) for name, some in topics.items()]


def test_add_partitions_of_a_client(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)

        async def added(*topics: tuple[str, list[int]], version: int = 3, epoch: int = 0, name: str = "tx") -> Any:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=one, partitions=some) for one, some in topics],
            )
            answer = await ask(node, request, version)
            assert answer == AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=answer.results_by_topic_v3_and_below
            )
            return answer.results_by_topic_v3_and_below

        assert await added(("t", [0, -1]), ("u", [0])) == of_partitions(("t", 0, 55), ("t", -1, 3), ("u", 0, 3))
        assert await added(("t", [1, 2])) == of_partitions(("t", 1, 55), ("t", 2, 3))
        ours = "__consumer_offsets"
        assert await added((ours, [0]), ("t", [0])) == of_partitions((ours, 0, 29), ("t", 0, 55))
        assert await added(("t", [0]), name="") == of_partitions(("t", 0, 42))
        assert await added(("t", [0]), version=1, epoch=1) == of_partitions(("t", 0, 47))
        assert await added(("t", [0]), version=2, epoch=1) == of_partitions(("t", 0, 90))
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None and transaction.partitions == ()
        assert await added(("t", [1, 0, 1])) == of_partitions(("t", 1, 0), ("t", 0, 0))
        topic, transaction = node.topics.by_name("t"), node.transactions.transaction_of("tx")
        assert topic is not None and transaction is not None
        assert transaction.client_version == 0
        assert [(one.topic, one.topic_id, one.partitions) for one in transaction.partitions] == [
            ("t", topic.topic_id, (0, 1))
        ]

    in_a_node(story, tmp_path)


def test_add_and_verify_partitions_of_a_broker(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)

        def wanted(*partitions: int, verify: bool, name: str = "tx", epoch: int = 0) -> AddPartitionsToTxnTransaction:
            return AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=identity.producer_id,
                producer_epoch=epoch,
                verify_only=verify,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
            )

        offsets = AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=[3])
        of_offsets = wanted(0, verify=True)
        of_offsets.topics = [offsets]
        request = AddPartitionsToTxnRequest(
            transactions=[
                wanted(0, verify=False),
                wanted(0, 1, verify=True),
                wanted(0, verify=True, epoch=1),
                wanted(0, verify=True, name=""),
                wanted(0, verify=True, name="other"),
                of_offsets,
            ]
        )
        answer = await ask(node, request, 4)
        expected = [
            ("tx", of_partitions(("t", 0, 0))),
            ("tx", of_partitions(("t", 0, 0), ("t", 1, 120))),
            ("tx", of_partitions(("t", 0, 90))),
            ("", of_partitions(("t", 0, 42))),
            ("other", of_partitions(("t", 0, 49))),
            ("tx", of_partitions(("__consumer_offsets", 3, 120))),
        ]
        assert answer == AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transactional_id=name, topic_results=topics) for name, topics in expected
            ]
        )
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None and transaction.client_version == 2

    in_a_node(story, tmp_path)


def test_add_offsets_and_end(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)

        async def offsets(version: int, epoch: int = 0, name: str = "tx") -> Any:
            request = AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=identity.producer_id, producer_epoch=epoch, group_id="g"
            )
            return await ask(node, request, version)

        async def ended(version: int, epoch: int, name: str = "tx", *, commit: bool = True) -> Any:
            request = EndTxnRequest(
                transactional_id=name, producer_id=identity.producer_id, producer_epoch=epoch, committed=commit
            )
            return await ask(node, request, version)

        answers = [await offsets(1, 1), await offsets(2, 1), await offsets(4, name="")]
        assert answers == [AddOffsetsToTxnResponse(error_code=code) for code in (47, 90, 42)]
        assert await offsets(4) == AddOffsetsToTxnResponse()
        transaction, topic = node.transactions.transaction_of("tx"), node.topics.by_name("__consumer_offsets")
        assert transaction is not None and topic is not None and transaction.client_version == 0
        (entry,) = transaction.partitions
        found = node.groups.partition_for("g")
        assert (entry.topic, entry.topic_id, entry.partitions) == ("__consumer_offsets", topic.topic_id, (found,))
        answers = [await ended(1, 1), await ended(2, 1), await ended(5, 0, ""), await ended(5, 0, "new")]
        assert answers == [EndTxnResponse(error_code=code) for code in (47, 90, 42, 49)]
        assert await ended(4, 0) == EndTxnResponse()
        await node.transactions.wait_until_completed("tx", 5)
        assert await ended(4, 0) == EndTxnResponse(), "again"
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None and transaction.client_version == 0
        assert await ended(5, 0, commit=False) == EndTxnResponse(producer_id=identity.producer_id, producer_epoch=1)

    in_a_node(story, tmp_path)


def described(name: str, error: int = 0, **fields: Any) -> DescribeTransactionsResponseTransactionState:
    values = {
        "transaction_state": "",
        "transaction_timeout_ms": 0,
        "transaction_start_time_ms": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": [],
    }
    return DescribeTransactionsResponseTransactionState(error_code=error, transactional_id=name, **(values | fields))


def test_what_is_described(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity, index=1)
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None
        answer = await ask(node, DescribeTransactionsRequest(transactional_ids=["tx", "", "none", "tx"]), 0)
        open_one = described(
            "tx",
            transaction_state="Ongoing",
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=identity.producer_id,
            producer_epoch=0,
            topics=[TopicData(topic="t", partitions=[1])],
        )
        assert answer == DescribeTransactionsResponse(
            transaction_states=[open_one, described("", 42), described("none", 105)]
        )

    in_a_node(story, tmp_path)


def test_what_is_listed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        identity, idle = await init(node), await init(node, "idle")
        await produce(node, identity, index=1)
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None

        async def listed(duration_ms: int = -1, **filters: Any) -> list[str]:
            request = {"state_filters": [], "producer_id_filters": [], "duration_filter": duration_ms} | filters
            answer = await ask(node, ListTransactionsRequest(**request), 2)
            return sorted(one.transactional_id for one in answer.transaction_states)

        monkeypatch.setattr(node.environment, "wall_ms", lambda: transaction.start_ms + 100)
        assert await listed(-1) == ["idle", "tx"]
        assert await listed(99) == ["idle", "tx"]
        assert await listed(100) == ["idle"], "it has no start: it began long ago"
        assert await listed(0, state_filters=["Ongoing"]) == ["tx"]
        monkeypatch.setattr(node.environment, "wall_ms", lambda: transaction.start_ms)
        assert await listed(0, state_filters=["Ongoing"]) == []
        assert await listed(producer_id_filters=[identity.producer_id]) == ["tx"]
        assert await listed(producer_id_filters=[identity.producer_id], state_filters=["Empty"]) == []
        request = ListTransactionsRequest(state_filters=["Odd", "Empty", "Odd"], producer_id_filters=[])
        assert await ask(node, request, 0) == ListTransactionsResponse(
            unknown_state_filters=["Odd"],
            transaction_states=[
                ListTransactionsResponseTransactionState(
                    transactional_id="idle", producer_id=idle.producer_id, transaction_state="Empty"
                )
            ],
        )

    in_a_node(story, tmp_path)


def marker(producer_id: int, *partitions: int, topic: str = "t", **fields: Any) -> WritableTxnMarker:
    values = {"producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0} | fields
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))]
    return WritableTxnMarker(producer_id=producer_id, topics=topics, **values)


def marked(producer_id: int, **topics: dict[int, int]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                    for index, error in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def test_markers_by_an_operator(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        stranger = 999_999
        markers = [
            marker(stranger, -1, 1, 2),
            marker(stranger, 0, topic="u"),
            marker(stranger, 50, topic="__consumer_offsets"),
            marker(stranger + 1, 1, producer_epoch=5),
        ]
        assert await ask(node, WriteTxnMarkersRequest(markers=markers), 2) == WriteTxnMarkersResponse(
            markers=[
                marked(stranger, t={-1: 3, 1: 0, 2: 3}, u={0: 3}, __consumer_offsets={50: 3}),
                marked(stranger + 1, t={1: 0}),
            ]
        )
        partition = node.topics.partition("t", 1)
        assert partition is not None and partition.end_offset == 2
        assert partition.derived.producers.epoch(stranger + 1) == 5

    in_a_node(story, tmp_path)


def test_no_marker_waits_for_another_one(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator in another node sends those of many transactions in one request: one commit is to do."""

    async def story(node: Services) -> None:
        begun: list[Any] = []
        monkeypatch.setattr(node.operator_markers, "write", lambda *given: begun.append(given))
        request = WriteTxnMarkersRequest(markers=[marker(7, 0, 1), marker(8, 0)])
        asked = asyncio.create_task(ask(node, request, 2))
        while len(begun) < 3:
            await asyncio.sleep(0)
        assert [(given[:2], given[3].producer_id) for given in begun] == [
            (("t", 0), 7),
            (("t", 1), 7),
            (("t", 0), 8),
        ]
        for given, error in zip(reversed(begun), (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, 6), strict=True):
            given[4](ErrorCode(error))
        assert await asked == WriteTxnMarkersResponse(markers=[marked(7, t={0: 6, 1: 3}), marked(8, t={0: 0})])

    in_a_node(story, tmp_path)


def test_markers_of_what_the_coordinator_holds_open(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity, index=0)

        async def said(**fields: Any) -> int:
            request = WriteTxnMarkersRequest(markers=[marker(identity.producer_id, 0, **fields)])
            (partition,) = (await ask(node, request, 2)).markers[0].topics[0].partitions
            return int(partition.error_code)

        def state() -> str:
            transaction = node.transactions.transaction_of("tx")
            assert transaction is not None
            return transaction.state.wire_name

        for commit in (False, True):
            stale = await said(producer_epoch=-1, transaction_result=commit)
            assert stale == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await said(producer_epoch=0, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await said(producer_epoch=0, transaction_result=True) == ErrorCode.INVALID_TXN_STATE
        of_later = {"producer_epoch": 1, "transaction_version": 2, "transaction_result": True}
        assert await said(**of_later) == ErrorCode.INVALID_TXN_STATE
        assert await said(producer_epoch=1) == ErrorCode.INVALID_PRODUCER_EPOCH, "nobody has it"
        assert await said(producer_epoch=0, coordinator_epoch=-2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert state() == "Ongoing"
        assert await said(producer_epoch=0, transaction_version=1) == ErrorCode.NONE
        assert state() == "CompleteAbort"

    in_a_node(story, tmp_path)


def test_an_implicit_add_is_of_the_new_protocol(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity, index=0)
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None and transaction.client_version == 2
        assert (await end(node, identity, commit=True)).producer_epoch == 1

    in_a_node(story, tmp_path)
