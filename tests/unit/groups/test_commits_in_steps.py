"""Commits and fetches of more partitions than one question has: what changes in between is seen (decision 0016)."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from broker.api.handlers import group_offsets, offset_fetch
from coordinator.groups import commits
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.groups import LeaveGroupRequest, MemberIdentity
from protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from tests.unit.groups.wire import GROUP, NOBODY, Broker, commit, partition_errors, run_story

TOPICS = ["a", "b"]
"""One partition each, and one step each."""


@pytest.fixture(autouse=True)
def _one_partition_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "OFFSETS_PER_STEP", 1)
    monkeypatch.setattr(offset_fetch, "FETCHED_AT_ONCE", 1)


def committed(**member: Any) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=None)]
    topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in TOPICS]
    return OffsetCommitRequest(group_id=GROUP, topics=topics, **member)


def staged(identity: Any) -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=None)]
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=GROUP,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name in TOPICS],
    )


async def fetched(broker: Broker, *, stable: bool = False) -> list[tuple[int, int]]:
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in TOPICS]
    answer = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=stable), 7)
    return [(one.committed_offset, one.error_code) for topic in answer.topics for one in topic.partitions]


async def begin(broker: Broker) -> None:
    await broker.found()
    for name in TOPICS:
        await broker.topic(name)


def after_the_first(monkeypatch: pytest.MonkeyPatch, broker: Broker, meanwhile: Any) -> None:
    """`meanwhile` happens between the first question to the coordinator and the second."""
    ask = broker.node.groups.ask
    asked: list[str] = []

    async def ask_then(group_id: str, operation: Any) -> Any:
        asked.append(group_id)
        if len(asked) == 2:
            await meanwhile()
        return await ask(group_id, operation)

    monkeypatch.setattr(broker.node.groups, "ask", ask_then)


def test_a_member_that_leaves_has_committed_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with any error of some partitions, it holds for those that have it, and for no others."""

    async def story(broker: Broker) -> None:
        await begin(broker)
        member = await broker.member()

        async def leave() -> None:
            monkeypatch.undo()
            await broker.ask(LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member)]), 5)

        after_the_first(monkeypatch, broker, leave)
        answer = await broker.ask(committed(member_id=member, generation_id_or_member_epoch=1), 8)
        assert partition_errors(answer) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        assert await fetched(broker) == [(7, 0), (-1, 0)]

    run_story(story, tmp_path)


def test_a_transaction_that_ends_meanwhile_takes_no_more_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate is checked again: offsets of the second step would be in no transaction, or in the next."""

    async def story(broker: Broker) -> None:
        await begin(broker)
        identity = await broker.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
        admit = group_offsets.admit_offset_commit
        admitted: list[ErrorCode] = []

        async def end_then_admit(*arguments: Any) -> ErrorCode:
            if admitted:
                end = EndTxnRequest(
                    transactional_id="tx",
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    committed=False,
                )
                assert (await broker.ask(end, 5)).error_code == ErrorCode.NONE
            admitted.append(await admit(*arguments))
            return admitted[-1]

        monkeypatch.setattr(group_offsets, "admit_offset_commit", end_then_admit)
        answer = await broker.ask(staged(identity), 5)
        assert partition_errors(answer)[0] is ErrorCode.NONE
        assert partition_errors(answer)[1] is not ErrorCode.NONE
        assert await fetched(broker, stable=True) == [(-1, 0), (-1, 0)]

    run_story(story, tmp_path)


def test_a_commit_between_two_questions_is_seen_by_the_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker) -> None:
        await begin(broker)
        for name in TOPICS:
            await broker.ask(commit(1, topic=name), 8)

        async def commit_both() -> None:
            monkeypatch.undo()
            for name in TOPICS:
                await broker.ask(commit(2, topic=name), 8)

        after_the_first(monkeypatch, broker, commit_both)
        assert await fetched(broker) == [(1, 0), (2, 0)]

    run_story(story, tmp_path)


def test_the_coordinator_is_asked_once_for_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once where there is nothing to ask for: it may have an error for the group."""

    async def story(broker: Broker) -> None:
        await begin(broker)
        ask = broker.node.groups.ask
        asked: list[str] = []

        def counted(group_id: str, operation: Any) -> Any:
            asked.append(group_id)
            return ask(group_id, operation)

        monkeypatch.setattr(broker.node.groups, "ask", counted)
        assert await fetched(broker) == [(-1, 0)] * len(TOPICS)
        assert asked == [GROUP] * len(TOPICS)
        asked.clear()
        nothing = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=[]), 7)
        assert (nothing.error_code, nothing.topics, asked) == (0, [], [GROUP])

    run_story(story, tmp_path)


@pytest.mark.parametrize("version", [7, 9, 10])
def test_all_offsets_are_the_same_in_steps(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all topics, as they are now: those of an earlier topic are not among them."""

    async def story(broker: Broker) -> None:
        await begin(broker)
        for partition in (2, 0, 1):
            for name in TOPICS:
                await broker.ask(commit(partition + 5, topic=name, partition=partition), 8)
        await broker.topic("another")
        await broker.ask(commit(9, topic="another"), 8)
        shard = broker.node.groups.shard_of(GROUP)
        assert shard is not None
        stored = shard.machine.ledger.offsets.committed[GROUP]
        stored["another", 0] = dataclasses.replace(stored["another", 0], topic_id=NOBODY)
        everything = OffsetFetchRequest(group_id=GROUP, topics=None)
        if version >= 8:
            everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        at_once = await broker.ask(everything, version)
        monkeypatch.setattr(commits, "FETCHED_AT_ONCE", 1)
        assert await broker.ask(everything, version) == at_once
        topics = at_once.topics if version < 8 else at_once.groups[0].topics
        assert len(topics) == 2
        assert [[one.committed_offset for one in topic.partitions] for topic in topics] == [[5, 6, 7]] * 2

    run_story(story, tmp_path, {"num.partitions": "3"})
