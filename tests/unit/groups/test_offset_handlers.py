"""Offsets of groups through a whole node: by name and by id, in every shape, plain and in transactions."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from broker.coordination.coordinators import CoordinatorError
from broker.coordination.forgotten_offsets import ForgottenOffsets
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from protocol.messages.transactions import AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from tests.unit.groups.wire import (
    GROUP,
    NOBODY,
    Broker,
    commit,
    partition_errors,
    run_story,
)


def test_offsets_by_name_and_by_id(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        topic_id = await broker.topic("t")
        assert partition_errors(await broker.ask(commit(1), 2)) == [ErrorCode.NONE]
        assert partition_errors(await broker.ask(commit(2, topic_id=topic_id, topic=""), 10)) == [ErrorCode.NONE]
        unknown = [
            await broker.ask(commit(3, topic="nope"), 8),
            await broker.ask(commit(3, partition=99), 8),
            await broker.ask(commit(3, topic_id=NOBODY), 10),
            await broker.ask(commit(3), 10),
        ]
        assert [partition_errors(answer) for answer in unknown] == [
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_ID],
            [ErrorCode.UNKNOWN_TOPIC_ID],
        ]
        wanted = [
            OffsetFetchRequestTopic(name="t", partition_indexes=[0]),
            OffsetFetchRequestTopic(name="nope", partition_indexes=[0]),
        ]
        fetched = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted), 1)
        assert [topic.partitions[0].committed_offset for topic in fetched.topics] == [2, -1]
        by_id = [OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in (topic_id, NOBODY, bytes(16))]
        groups = [
            OffsetFetchRequestGroup(group_id=GROUP, topics=by_id),
            OffsetFetchRequestGroup(group_id=GROUP, topics=None),
        ]
        several = await broker.ask(OffsetFetchRequest(groups=groups), 10)
        first, second = several.groups
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in first.topics] == [
            (topic_id, ErrorCode.NONE),
            (NOBODY, ErrorCode.UNKNOWN_TOPIC_ID),
            (bytes(16), ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        assert [(topic.topic_id, topic.partitions[0].committed_offset) for topic in second.topics] == [(topic_id, 2)]

    run_story(story, tmp_path)


def test_group_errors_stand_where_the_version_has_room(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        first = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted), 1)
        assert partition_errors(first) == [ErrorCode.NOT_COORDINATOR] * 2
        second = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted), 2)
        assert (second.error_code, second.topics) == (ErrorCode.NOT_COORDINATOR, [])
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
        eighth = await broker.ask(OffsetFetchRequest(groups=groups), 8)
        assert eighth.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    run_story(story, tmp_path)


def test_offsets_of_unknown_partitions_cannot_be_deleted(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        await broker.ask(commit(1), 8)
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in indexes]
            )
            for name, indexes in (("t", [99, 0]), ("nope", [0]))
        ]
        answer = await broker.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition_errors(answer) == [unknown, ErrorCode.NONE, unknown]
        missing = await broker.ask(OffsetDeleteRequest(group_id="nobody", topics=topics), 0)
        assert (missing.error_code, missing.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])

    run_story(story, tmp_path)


def test_deletions_larger_than_one_batch(tmp_path: Path) -> None:
    """Tombstones of a group with so long a name are batches of their own."""

    async def story(broker: Broker) -> None:
        await broker.found()
        group = "g" * 20_000
        names = [f"t{index}" for index in range(4)]
        for name in names:
            await broker.topic(name)
            assert partition_errors(await broker.ask(commit(1, topic=name, group_id=group), 8)) == [ErrorCode.NONE]
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in names[:3]
        ]
        answer = await broker.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
        assert partition_errors(answer) == [ErrorCode.NONE] * 3
        fetched = await broker.ask(OffsetFetchRequest(group_id=group, topics=None), 7)
        assert [topic.name for topic in fetched.topics] == names[3:]
        for name in names[:3]:
            await broker.ask(commit(1, topic=name, group_id=group), 8)
        deleted = await broker.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        assert deleted.results[0].error_code == ErrorCode.NONE
        assert (await broker.ask(ListGroupsRequest(), 4)).groups == []

    run_story(story, tmp_path)


def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        await broker.ask(commit(1), 8)
        topic = broker.node.topics.by_name("t")
        assert topic is not None
        tasks: list[asyncio.Task[None]] = []

        def own(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
            tasks.append(asyncio.get_running_loop().create_task(work))
            return tasks[-1]

        forgotten = ForgottenOffsets(broker.node.groups, own)
        for _ in range(1000):
            forgotten.forget(topic)
        assert len(tasks) == 1, "one walk for all of them"
        await tasks[0]
        fetched = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
        assert fetched.topics == []

    run_story(story, tmp_path)


def test_offsets_in_a_transaction(tmp_path: Path) -> None:
    """I43: first the transaction is verified, then the group judges; a refusal leaves nothing behind."""

    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        member = await broker.member()
        producer = await broker.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 2)
        identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}

        async def stage(offset: int, **changes: Any) -> ErrorCode:
            request = staged(offset, **({"member_id": member} | identity | changes))
            (error,) = partition_errors(await broker.ask(request, 3))
            return error

        async def offset() -> Any:
            wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
            answer = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted, require_stable=True), 7)
            found = answer.topics[0].partitions[0]
            return ErrorCode(found.error_code) if found.error_code else found.committed_offset

        assert await stage(7) == ErrorCode.INVALID_TXN_STATE, "the group was not added to the transaction"
        add = AddOffsetsToTxnRequest(transactional_id="tx", group_id=GROUP, **identity)
        assert (await broker.ask(add, 0)).error_code == ErrorCode.NONE
        assert await stage(7, generation_id_or_member_epoch=9) == ErrorCode.ILLEGAL_GENERATION
        assert await stage(7, member_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await stage(7, producer_epoch=9) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await stage(7, group_id="") == ErrorCode.INVALID_GROUP_ID
        assert await offset() == -1
        assert await stage(7) == ErrorCode.NONE
        assert await offset() == ErrorCode.UNSTABLE_OFFSET_COMMIT
        end = EndTxnRequest(transactional_id="tx", committed=True, **identity)
        assert (await broker.ask(end, 1)).error_code == ErrorCode.NONE
        while (found := await offset()) == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            await asyncio.sleep(0)
        assert found == 7

    run_story(story, tmp_path)


def test_a_transaction_hears_of_a_coordinator_that_loads_what_its_client_repeats(tmp_path: Path) -> None:
    """KAFKA-7296: clients of the first versions take COORDINATOR_LOAD_IN_PROGRESS for the end."""

    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        producer = await broker.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 2)
        identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        add = AddOffsetsToTxnRequest(transactional_id="tx", group_id=GROUP, **identity)
        assert (await broker.ask(add, 0)).error_code == ErrorCode.NONE
        refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        async def ask(*_: object) -> None:
            raise CoordinatorError(refusal)

        broker.node.groups.ask = ask  # type: ignore[assignment]
        for refusal, told in (
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2),
            (ErrorCode.NOT_COORDINATOR, [ErrorCode.NOT_COORDINATOR] * 2),
        ):
            answers = [await broker.ask(staged(7, **identity), version) for version in (0, 1, 2, 3)]
            assert [partition_errors(answer) for answer in answers] == [[error] for error in (*told, refusal, refusal)]

    run_story(story, tmp_path)


def staged(offset: int, **identity: Any) -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)]
    fields: dict[str, Any] = {"transactional_id": "tx", "group_id": GROUP, "generation_id_or_member_epoch": 1}
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=partitions)]
    return TxnOffsetCommitRequest(topics=topics, **(fields | identity))
