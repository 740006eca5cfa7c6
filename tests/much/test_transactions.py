"""A transaction over thousands of partitions and offsets, and thousands of transactional ids."""

import asyncio
from typing import Any

from protocol.messages.group_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
)
from tests.much.place import Place, told, topic

PARTITIONS = 8_000
OFFSETS = 3_000
IDS = 5_000
GROUP, TRANSACTION = 0, 1
"""Types of coordinators."""


def _init(transactional_id: str, timeout_ms: int = 60_000) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)


def _add(transactional_id: str, of: InitProducerIdResponse, partitions: list[int]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=of.producer_id,
        v3_and_below_producer_epoch=of.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="wide", partitions=partitions)],
    )


async def _states(place: Place) -> set[str]:
    answer = await place.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
    return {one.transaction_state for one in answer.transaction_states}


def test_a_transaction_over_thousands_of_partitions() -> None:
    async def story(place: Place) -> None:
        with place.uncounted():
            await place.make(topic("wide", PARTITIONS))
            await place.find_coordinator(GROUP)
            await place.find_coordinator(TRANSACTION)
        of = await place.ask(_init("wide"))
        answer = await place.ask(_add("wide", of, list(range(PARTITIONS))), 3)
        assert {one.partition_error_code for one in answer.results_by_topic_v3_and_below[0].results_by_partition} == {0}
        identity: dict[str, Any] = {
            "transactional_id": "wide",
            "producer_id": of.producer_id,
            "producer_epoch": of.producer_epoch,
        }
        offsets = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="")
            for index in range(OFFSETS)
        ]
        staged = [TxnOffsetCommitRequestTopic(name="wide", partitions=offsets)]
        answer = await place.ask(TxnOffsetCommitRequest(group_id="g", topics=staged, **identity), 5)
        assert {one.error_code for one in answer.topics[0].partitions} == {0}
        answer = await place.ask(DescribeTransactionsRequest(transactional_ids=["wide"]))
        assert sum(len(one.partitions) for one in answer.transaction_states[0].topics) == PARTITIONS + 1
        answer = await place.ask(EndTxnRequest(committed=True, **identity), 5)
        assert answer.error_code == 0
        while await _states(place) != {"CompleteCommit"}:
            await asyncio.sleep(0.1)

    assert told(story) == []


def test_thousands_of_transactions_that_nobody_ends() -> None:
    """They time out while the broker stands still, all at once; a restart; then the ids expire."""

    async def story(place: Place) -> None:
        names = [f"x{number}" for number in range(IDS)]
        with place.uncounted():
            await place.make(topic("wide", 100))
            await place.find_coordinator(TRANSACTION)
            of = await place.ask_each([_init(name, 5_000) for name in names])
            await place.ask_each([_add(name, one, [0]) for name, one in zip(names, of, strict=True)], 3)
        assert await _states(place) == {"Ongoing"}
        answer = await place.ask(DescribeTransactionsRequest(transactional_ids=names))
        assert {one.transaction_state for one in answer.transaction_states} == {"Ongoing"}
        place.stand_still(10)
        await asyncio.sleep(15)
        assert await _states(place) == {"CompleteAbort"}
        await place.restart()
        await asyncio.sleep(60)
        assert await _states(place) == set()

    settings = {
        "transactional.id.expiration.ms": "20000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
    }
    assert told(story, **settings) == []
