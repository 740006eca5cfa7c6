"""`tallystick explain lag` and `tallystick explain group`: of groups that are behind, and that wait for members."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from tallystick.cli.explain import explain
from tallystick.cli.explaining.group import said as group_said
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.client.client import GROUP, Client
from tallystick.client.errors import check
from tallystick.inspection.groups import Group, Member
from tallystick.inspection.lag import Lag, Standing
from tallystick.inspection.waiting import waiting
from tests.clients.test_explain_command import run
from tests.harness.broker import server
from tests.harness.confluent import admin, make_topic, wait_until, write
from tests.harness.transactional import TransactionalProducer


def said(bootstrap: str, *arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(explain, [*arguments, "--bootstrap-server", bootstrap])
    assert done.exit_code == status, done.output
    return done.output


def lag_of(bootstrap: str, group: str, *options: str, status: int = 0) -> dict[int, dict[str, Any]]:
    found = json.loads(said(bootstrap, "lag", group, "--json", *options, status=status))
    return {one["partition"]: one for one in found}


def _error_of(answer: Any) -> int:
    """Its own, or that of the first partition."""
    if isinstance(answer, OffsetCommitResponse):
        return next(one.error_code for topic in answer.topics for one in topic.partitions)
    return int(answer.error_code)


async def patiently(client: Client, group: str, request: object, version: int | None = None) -> Any:
    """Its coordinator may have begun a moment ago."""

    async def attempt() -> Any:
        answer = await (await client.coordinator(group, GROUP)).ask(request, version)
        check(_error_of(answer))
        return answer

    return await client.patiently(attempt)


def commit(bootstrap: str, group: str, topic: str, **offsets: int) -> None:
    wanted = [
        OffsetCommitRequestPartition(
            partition_index=int(name.removeprefix("p")), committed_offset=offset, committed_metadata=""
        )
        for name, offset in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=group, member_id="", topics=[OffsetCommitRequestTopic(name=topic, partitions=wanted)]
    )

    async def story(client: Client) -> None:
        answer = await patiently(client, group, request, 8)
        assert {one.error_code for topic in answer.topics for one in topic.partitions} == {0}

    run(bootstrap, story)


def test_markers_and_aborted_records_are_nobodys_lag(bootstrap: str, name: str) -> None:
    topic = make_topic(bootstrap, name, 3)

    async def story(client: Client) -> None:
        producer = TransactionalProducer(client, f"{name}-id")
        await producer.init()
        for partition, ends in ((0, (True,)), (1, (True, False)), (2, (False, True, None))):
            for end in ends:
                producer.begin()
                await producer.produce(topic, partition, [b"a", b"b", b"c"])
                if end is not None:
                    await producer.end(committed=end)

    run(bootstrap, story)
    commit(bootstrap, name, topic, p0=3, p1=1, p2=0)
    found = lag_of(bootstrap, name, status=STANDS_STILL)
    shown = {number: (one["offsets"], one["records"], one["held"], one["standing"]) for number, one in found.items()}
    assert shown == {0: (1, 0, 0, "done"), 1: (7, 2, 0, "behind"), 2: (11, 3, 3, "behind")}
    text = said(bootstrap, "lag", name, status=STANDS_STILL)
    assert f"{topic}-0: committed 3, the partition ends at 4: all is read; the last offset is a marker" in text
    assert f"tallystick explain stuck {topic}-2" in text
    few = lag_of(bootstrap, name, "--count-up-to", "6", status=STANDS_STILL)
    assert [few[number]["records"] for number in range(3)] == [0, None, None], "7 and 8 offsets are more than 6"


def test_a_group_that_has_read_everything(bootstrap: str, name: str) -> None:
    topic = make_topic(bootstrap, name)
    write(bootstrap, topic, [b"a", b"b"])
    commit(bootstrap, name, topic, p0=2)
    assert said(bootstrap, "lag", name) == f"{topic}-0: committed 2, the partition ends at 2: all is read.\n"
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{name}-new", "enable.auto.commit": False})
    member.subscribe([topic])
    wait_until(lambda: bool(member.poll(0.1) or member.assignment()), "the member has joined")
    assert "has committed no offset" in said(bootstrap, "lag", f"{name}-new")
    member.close()


def test_offsets_that_lie_outside_of_the_log(bootstrap: str, name: str) -> None:
    topic = make_topic(bootstrap, name, 2)
    write(bootstrap, topic, [b"a", b"b", b"c", b"d"], partition=0)
    asker, cut = admin(bootstrap), TopicPartition(topic, 0, 3)
    asker.delete_records([cut])[cut].result(60)
    commit(bootstrap, name, topic, p0=1, p1=7)
    found = lag_of(bootstrap, name, status=STANDS_STILL)
    assert (found[0]["standing"], found[0]["records"], found[0]["start"]) == ("before the start", 1, 3)
    assert (found[1]["standing"], found[1]["records"], found[1]["offsets"]) == ("beyond the end", 0, 0)
    assert "auto.offset.reset" in said(bootstrap, "lag", name, status=STANDS_STILL)


def test_a_partition_that_is_gone() -> None:
    gone = Lag(("t", 0), 5, None, None)
    assert (gone.standing, gone.offsets, gone.held) == (Standing.NO_TOPIC, 0, 0)


class Beating:
    """One member of the consumer protocol, heartbeat by heartbeat."""

    def __init__(self, client: Client, group: str, member_id: str, topic: str) -> None:
        self._client, self._topic = client, topic
        self._next = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )

    async def heartbeat(self) -> None:
        """It takes what it is given, and gives up what it is told to give up with the next one."""
        answer: ConsumerGroupHeartbeatResponse = await patiently(self._client, self._next.group_id, self._next)
        owned = None
        if answer.assignment is not None:
            owned = [
                HeartbeatTopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
                for one in answer.assignment.topic_partitions
            ]
        self._next = ConsumerGroupHeartbeatRequest(
            group_id=self._next.group_id,
            member_id=self._next.member_id,
            member_epoch=answer.member_epoch,
            topic_partitions=owned,
        )


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[str]:
    """A broker that makes each assignment at once."""
    process = server(tmp_path, more={"group.consumer.assignment.interval.ms": "0"})
    try:
        yield process.start().bootstrap
    finally:
        process.close()


def test_who_has_to_give_up_what(prompt: str, name: str) -> None:
    bootstrap = prompt
    topic = make_topic(bootstrap, name, 2)

    async def story(client: Client) -> None:
        first, second = (Beating(client, name, f"{name}-{which}", topic) for which in ("first", "second"))
        for _ in range(2):
            await first.heartbeat()
        seen.append(json.loads(await asked("--json")))
        for _ in range(2):
            await second.heartbeat()
        seen.append(json.loads(await asked("--json", status=STANDS_STILL)))
        texts.append(await asked(status=STANDS_STILL))
        await first.heartbeat()
        seen.append(json.loads(await asked("--json", status=STANDS_STILL)))
        texts.append(await asked(status=STANDS_STILL))
        await first.heartbeat()
        await second.heartbeat()
        await second.heartbeat()
        seen.append(json.loads(await asked("--json")))

    async def asked(*options: str, status: int = 0) -> str:
        return await asyncio.to_thread(lambda: said(bootstrap, "group", name, *options, status=status))

    seen: list[dict[str, Any]] = []
    texts: list[str] = []
    run(bootstrap, story)
    alone, waits, given_up, settled = seen
    assert (alone["state"], alone["waitsFor"], alone["type"]) == ("Stable", [], "consumer")
    (wanted,) = waits["waitsFor"]
    assert (wanted["to"], wanted["heldBy"]) == (f"{name}-second", f"{name}-first")
    assert waits["late"] == [f"{name}-first"] and "has it still" in texts[0]
    (wanted,) = given_up["waitsFor"]
    assert (wanted["to"], wanted["heldBy"]) == (f"{name}-second", f"{name}-first"), (
        "told to give it up, it has it still"
    )
    assert texts[0] == texts[1] and f"{name}-first (client tallystick at" in texts[1]
    assert settled["waitsFor"] == settled["late"] == [] and settled["state"] == "Stable"
    assert [member["epoch"] for member in settled["members"]] == [settled["epoch"]] * 2


def test_a_classic_group_that_waits_for_its_leader(bootstrap: str, name: str) -> None:
    async def story(client: Client) -> None:
        join = JoinGroupRequest(
            group_id=name,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6))],
        )
        await patiently(client, name, join, 3)

    run(bootstrap, story)
    assert "it waits for the assignment of its leader" in said(bootstrap, "group", name, status=STANDS_STILL)
    found = json.loads(said(bootstrap, "group", name, "--json", status=STANDS_STILL))
    assert (found["type"], found["state"], len(found["members"])) == ("classic", "CompletingRebalance", 1)


def test_nobody_knows_it(bootstrap: str, name: str) -> None:
    for question in ("group", "lag"):
        assert "there is no group of consumers" in said(bootstrap, question, name, status=1)


def test_what_is_free_comes_with_a_heartbeat_or_from_who_is_late() -> None:
    def member(name: str, epoch: int, *, wants: frozenset[tuple[str, int]] = frozenset()) -> Member:
        return Member(name, None, "client", "/host", epoch, frozenset(), wants)

    waits = member("waits", 3, wants=frozenset({("t", 1)}))
    free = waiting(Group("g", "consumer", "Reconciling", "uniform", (waits,), 3, 3))
    assert "t-1 is to go to waits (client client at host), with its next heartbeat." in group_said(free)[1]
    late = waiting(Group("g", "consumer", "Reconciling", "uniform", (waits, member("late", 2)), 3, 3))
    _, wanted, behind = group_said(late)
    assert "one of those below" in wanted and behind.strip().startswith("late (client client at host) is at epoch 2")
