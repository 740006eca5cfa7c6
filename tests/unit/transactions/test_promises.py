"""A decision to commit is not even written before what it promises is on the disk (decision 0001)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.transaction_gate import add_to_transaction
from broker.process.time_slice import TimeSlice
from coordinator.runtime import ShardState
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import NO_TOPIC_ID, TopicPartitions, TransactionState
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.topics import DeleteTopicState
from protocol.records.batch import read_header
from tests.harness.turns import Turns
from tests.unit.transactions.node_rig import ask, end, in_a_node, init, partitions_of, produce


class HeldSyncs:
    """Syncs that take place when the test says so."""

    def __init__(self, node: Services, monkeypatch: pytest.MonkeyPatch) -> None:
        self._waiting: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []
        self._context = monkeypatch
        self._context.setattr(node.environment, "run_blocking", self._hold)

    def _hold(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((done, work))
        return done

    def go_on(self) -> None:
        self._context.undo()
        for done, work in self._waiting:
            done.set_result(work())


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def stage(node: Services, identity: Any, offset: int) -> ErrorCode:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    return ErrorCode((await ask(node, request, 5)).topics[0].partitions[0].error_code)


def state_end(node: Services) -> int:
    shard = node.transactions.shard_of("tx")
    assert shard is not None
    return shard.log.end_offset


@pytest.mark.parametrize("version", [4, 5])
def test_a_commit_waits_for_records_that_are_not_durable(
    version: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent by a client that did not wait for its acknowledgement, or took it with acks=1. The kernel might write the
    decision to the disk, and lose them."""

    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity, index=0) is ErrorCode.NONE
        before = state_end(node)
        syncs = HeldSyncs(node, monkeypatch)
        assert await produce(node, identity, index=0, sequence=1, version=11) is ErrorCode.NONE
        ending = asyncio.ensure_future(end(node, identity, commit=True, version=version))
        await some_turns()
        assert state_end(node) == before
        syncs.go_on()
        assert (await ending).error_code == ErrorCode.NONE
        partition = partitions_of(node)[0]
        assert partition.high_watermark >= 2

    in_a_node(story, tmp_path, tallystick_in_memory="false")


def test_a_commit_waits_for_offsets_that_are_not_durable(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent over another connection, by a client that does not wait for its answer."""

    async def story(node: Services) -> None:
        identity = await init(node)
        assert await stage(node, identity, 1) is ErrorCode.NONE
        before = state_end(node)
        syncs = HeldSyncs(node, monkeypatch)
        staging = asyncio.ensure_future(stage(node, identity, 2))
        await some_turns()
        ending = asyncio.ensure_future(end(node, identity, commit=True))
        await some_turns()
        seen = staging.done(), state_end(node)
        syncs.go_on()  # before anything may fail: the node could not be stopped
        assert seen == (False, before)
        assert await staging is ErrorCode.NONE
        assert (await ending).error_code == ErrorCode.NONE
        assert state_end(node) > before

    in_a_node(story, tmp_path, tallystick_in_memory="false")


def test_an_abort_promises_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        before = state_end(node)
        syncs = HeldSyncs(node, monkeypatch)
        ending = asyncio.ensure_future(end(node, identity, commit=False))
        await some_turns()
        assert state_end(node) > before
        syncs.go_on()
        assert (await ending).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path, tallystick_in_memory="false")


def test_a_client_that_goes_away_does_not_stop_its_commit(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """I45, also while the decision is still waiting for records."""

    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        syncs = HeldSyncs(node, monkeypatch)
        assert await produce(node, identity, sequence=1, version=11) is ErrorCode.NONE
        ending = asyncio.ensure_future(end(node, identity, commit=True))
        await some_turns()
        ending.cancel()
        syncs.go_on()
        partition = partitions_of(node)[0]
        while partition.high_watermark < 3:
            await asyncio.sleep(0)
        (marker,) = partition.log.read(2, 1000, end_offset=3)
        assert read_header(marker).is_control

    in_a_node(story, tmp_path, tallystick_in_memory="false")


def test_a_commit_does_not_wait_for_a_deleted_topic(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        syncs = HeldSyncs(node, monkeypatch)
        assert await produce(node, identity, sequence=1, version=11) is ErrorCode.NONE
        ending = asyncio.ensure_future(end(node, identity, commit=True))
        deleting = asyncio.ensure_future(node.topics.delete([DeleteTopicState(name="t")]))
        await some_turns()
        syncs.go_on()
        assert (await ending).error_code == ErrorCode.NONE
        await deleting

    in_a_node(story, tmp_path, tallystick_in_memory="false")


@pytest.mark.parametrize("named", [False, True])
def test_a_commit_waits_for_records_however_the_topic_is_named(
    named: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its id; records of layout 0 have no room for that."""

    async def story(node: Services) -> None:
        identity = await init(node)
        topic = node.topics.by_name("t")
        assert topic is not None
        producer = Producer(identity.producer_id, identity.producer_epoch)
        wanted = [TopicPartitions("t", topic.topic_id if named else NO_TOPIC_ID, (0,))]
        await add_to_transaction(node, "tx", producer, wanted, client_version=2)
        before = state_end(node)
        monkeypatch.setattr(TimeSlice, "spent", lambda _: True)  # as if each look took that long
        syncs = HeldSyncs(node, monkeypatch)
        assert await produce(node, identity, version=11) is ErrorCode.NONE
        ending = asyncio.ensure_future(end(node, identity, commit=True))
        await some_turns()
        seen = state_end(node)
        syncs.go_on()
        assert seen == before
        assert (await ending).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path, tallystick_in_memory="false")


async def begin_wide(node: Services, identity: Any, indexes: range) -> None:
    """A transaction over partitions of `t`, nothing written yet."""
    topic = node.topics.by_name("t")
    assert topic is not None
    producer = Producer(identity.producer_id, identity.producer_epoch)
    wanted = [TopicPartitions("t", topic.topic_id, tuple(indexes))]
    await add_to_transaction(node, "tx", producer, wanted, client_version=2)


def test_a_commit_over_many_partitions_yields_to_the_loop(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        await begin_wide(node, identity, range(200))
        turns = Turns(node.environment)
        assert (await end(node, identity, commit=True)).error_code == ErrorCode.NONE
        assert turns.waited > 5

    in_a_node(story, tmp_path, num_partitions="200")


def test_a_transaction_that_gets_more_meanwhile_is_looked_at_again(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        await begin_wide(node, identity, range(100, 200))
        Turns(node.environment)
        syncs = HeldSyncs(node, monkeypatch)
        ending = asyncio.ensure_future(end(node, identity, commit=True))
        await asyncio.sleep(0)
        adding = asyncio.ensure_future(begin_wide(node, identity, range(1)))
        await asyncio.sleep(0)
        assert await produce(node, identity, version=11, index=0) is ErrorCode.NONE
        await some_turns()
        shard = node.transactions.shard_of("tx")
        assert shard is not None
        state = shard.machine.transactions["tx"].state
        syncs.go_on()
        assert state is TransactionState.ONGOING
        assert (await ending).error_code == ErrorCode.NONE
        await adding

    in_a_node(
        story,
        tmp_path,
        num_partitions="200",
        tallystick_in_memory="false",
        transaction_partition_verification_enable="false",
    )


def test_a_log_that_is_opened_for_a_commit_does_not_hide_another_that_is_not_durable(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        topic = node.topics.by_name("t")
        assert topic is not None
        await begin_wide(node, identity, range(3))
        syncs = HeldSyncs(node, monkeypatch)
        assert await produce(node, identity, version=11, index=0) is ErrorCode.NONE
        before = state_end(node)
        topic.partitions.grow(3)
        node.topics.to_open.add(topic)
        ending = asyncio.ensure_future(end(node, identity, commit=True))
        while topic.partitions.is_closed(2):
            await asyncio.sleep(0)
        await some_turns()
        seen = state_end(node)
        syncs.go_on()
        assert seen == before
        assert (await ending).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path, tallystick_in_memory="false")


@pytest.mark.parametrize("named", [False, True])
def test_only_an_open_transaction_waits_for_logs_to_be_opened(named: bool, tmp_path: Any) -> None:
    """Records of layout 0 do not name the ids of topics."""

    async def story(node: Services) -> None:
        identity = await init(node)
        topic = node.topics.by_name("t")
        assert topic is not None
        wanted = [TopicPartitions("t", topic.topic_id if named else NO_TOPIC_ID, (0, 1, 2))]
        producer = Producer(identity.producer_id, identity.producer_epoch)
        await add_to_transaction(node, "tx", producer, wanted, client_version=2)
        topic.partitions.grow(3)
        node.topics.to_open.stop()
        node.topics.to_open.add(topic)
        answers = [(await end(node, identity, commit=commit)).error_code for commit in (True, False, True)]
        assert answers == [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NONE,
            ErrorCode.CONCURRENT_TRANSACTIONS,
        ]

    in_a_node(story, tmp_path)


def test_a_commit_waits_for_records_while_its_shard_is_read_again(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, the transaction is not known to be open."""

    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        before = state_end(node)
        syncs = HeldSyncs(node, monkeypatch)
        assert await produce(node, identity, sequence=1, version=11) is ErrorCode.NONE
        shard = node.transactions.shard_of("tx")
        assert shard is not None
        shard.reload()
        ending = asyncio.ensure_future(end(node, identity, commit=True))
        while shard.state is not ShardState.ACTIVE:
            await asyncio.sleep(0)
        await some_turns()
        seen = state_end(node)
        syncs.go_on()
        assert seen == before
        assert (await ending).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path, tallystick_in_memory="false")


def test_a_commit_waits_for_no_other_log_to_be_opened(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        topic = node.topics.by_name("t")
        assert topic is not None
        topic.partitions.grow(3)
        node.topics.to_open.stop()
        node.topics.to_open.add(topic)
        assert (await end(node, identity, commit=True)).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path)
