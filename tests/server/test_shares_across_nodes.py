"""A share group over partitions that three nodes lead: what is acknowledged is not handed out again, whatever node is
killed, and whoever leads a partition next goes on from what is kept.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable

import pytest

import tallystick
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.share import acknowledge, offsets, state
from protocol.messages.share import fetch as fetching
from protocol.messages.share.groups import ShareGroupHeartbeatRequest
from protocol.records.batch import headers_in
from protocol.records.record import records_of
from tallystick.client.client import Client
from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost, KafkaError, check
from tallystick.client.reading import joined
from tests.harness.confluent import SECONDS, make_topic, write
from tests.harness.retriable import PASSES_BY_ITSELF

GROUP, TOPIC, PARTITIONS = "sharers", "orders", 6
OF_GROUPS, COORDINATES_GROUPS, COORDINATES_SHARES = 32, 0, 2
ACCEPT = 1

Place = tuple[int, int]
"""(partition, offset)"""


@pytest.fixture
def broker(nodes: tallystick.Broker) -> tallystick.Broker:
    return nodes


class Member:
    """The only member of its group, with a session at each leader."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._epoch = 0
        self._sessions: dict[int, tuple[int, frozenset[int]]] = {}
        """By leader: the next epoch, and the partitions."""
        self.held: dict[Place, tuple[int, bytes]] = {}
        """What it was handed and has not acknowledged: (leader, value)."""
        self.handed: list[bytes] = []
        self.acknowledged: dict[Place, bytes] = {}

    async def join(self) -> None:
        """Until all partitions are its."""
        earliest = IncrementalAlterConfigsRequestAlterableConfig(
            name="share.auto.offset.reset", config_operation=0, value="earliest"
        )
        wanted = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=OF_GROUPS, resource_name=GROUP, configs=[earliest]
        )
        answer = await self._client.ask(IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False))
        check(answer.responses[0].error_code)
        await until(self._has_all)

    async def _has_all(self) -> bool:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", member_epoch=self._epoch, subscribed_topic_names=[TOPIC]
        )
        node = await self._client.coordinator(GROUP, COORDINATES_GROUPS)
        answer = await node.ask(request, 1)
        if answer.error_code in PASSES_BY_ITSELF:
            return False
        check(answer.error_code, answer.error_message)
        self._epoch = answer.member_epoch
        assigned = [] if answer.assignment is None else answer.assignment.topic_partitions
        return sum(len(topic.partitions) for topic in assigned) == PARTITIONS

    async def fetch(self) -> set[ErrorCode]:
        """From each leader once; the errors of partitions. What was held of a leader that is gone is nobody's."""
        self._client.forget()
        try:
            topic = await self._client.topic(TOPIC)
        except (ConnectionLost, OSError):  # the next question goes to another node
            return {ErrorCode.NETWORK_EXCEPTION}
        led: dict[int, set[int]] = {}
        for one in topic.partitions:
            led.setdefault(one.leader_id, set()).add(one.partition_index)
        for gone in self._sessions.keys() - led.keys():
            self._lost(gone)
        errors: set[ErrorCode] = set()
        for leader, indexes in sorted(led.items()):
            if leader < 0:
                errors.add(ErrorCode.LEADER_NOT_AVAILABLE)
                continue
            try:
                errors |= await self._fetch_from(leader, frozenset(indexes), topic.topic_id)
            except (ConnectionLost, OSError, KafkaError):
                self._lost(leader)
                errors.add(ErrorCode.NETWORK_EXCEPTION)
        return errors

    def _lost(self, leader: int) -> None:
        self._sessions.pop(leader, None)
        self.held = {place: held for place, held in self.held.items() if held[0] != leader}

    async def _fetch_from(self, leader: int, wanted: frozenset[int], topic_id: bytes) -> set[ErrorCode]:
        epoch, known = self._sessions.get(leader, (0, frozenset[int]()))
        added, gone = sorted(wanted - known), sorted(known - wanted)
        partitions = [fetching.FetchPartition(partition_index=one, acknowledgement_batches=[]) for one in added]
        request = fetching.ShareFetchRequest(
            group_id=GROUP,
            member_id="m",
            share_session_epoch=epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[fetching.FetchTopic(topic_id=topic_id, partitions=partitions)] if added else [],
            forgotten_topics_data=[fetching.ForgottenTopic(topic_id=topic_id, partitions=gone)] if gone else [],
        )
        answer = await (await self._client.node(leader)).ask(request, 2)
        check(answer.error_code, answer.error_message)
        self._sessions[leader] = epoch + 1, wanted
        self.held = {place: held for place, held in self.held.items() if held[0] != leader or place[0] in wanted}
        told = [one for topic in answer.responses for one in topic.partitions]
        for one in told:
            self._take(leader, one)
        return {ErrorCode(one.error_code) for one in told if one.error_code}

    def _take(self, leader: int, told: fetching.PartitionData) -> None:
        data = joined(told)  # type: ignore[arg-type]
        records = {record.offset: record for at, _ in headers_in(data) for record in records_of(data, at)}
        for run in told.acquired_records:
            for offset in range(run.first_offset, run.last_offset + 1):
                place, value = (told.partition_index, offset), bytes(records[offset].value or b"")
                assert place not in self.acknowledged, f"{place} was acknowledged, and is handed out again"
                self.held[place] = leader, value
                self.handed.append(value)

    async def accept(self) -> None:
        """All that it holds; what cannot be acknowledged now is handed out again."""
        topic_id = (await self._client.topic(TOPIC)).topic_id
        for leader in sorted({leader for leader, _ in self.held.values()}):
            try:
                await self._accept_at(leader, topic_id)
            except (ConnectionLost, OSError, KafkaError):
                self._lost(leader)

    async def _accept_at(self, leader: int, topic_id: bytes) -> None:
        said: dict[int, list[int]] = {}
        for index, offset in sorted(place for place, held in self.held.items() if held[0] == leader):
            said.setdefault(index, []).append(offset)
        epoch, known = self._sessions[leader]
        request = acknowledge.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id="m",
            share_session_epoch=epoch,
            topics=[
                acknowledge.AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        acknowledge.AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                acknowledge.AcknowledgementBatch(
                                    first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT]
                                )
                                for offset in said_of
                            ],
                        )
                        for index, said_of in said.items()
                    ],
                )
            ],
        )
        answer = await (await self._client.node(leader)).ask(request, 2)
        check(answer.error_code, answer.error_message)
        self._sessions[leader] = epoch + 1, known
        for one in (one for topic in answer.responses for one in topic.partitions):
            for offset in said[one.partition_index]:
                _, value = self.held.pop((one.partition_index, offset))
                if not one.error_code:
                    self.acknowledged[one.partition_index, offset] = value

    async def accept_until(self, values: set[bytes]) -> None:
        """Until these are what it has acknowledged, each once, and nothing more comes."""

        async def has_all() -> bool:
            await self.fetch()
            await self.accept()
            return len(self.acknowledged) >= len(values)

        await until(has_all)
        assert await self.fetch() <= {ErrorCode.NETWORK_EXCEPTION}
        assert not self.held
        assert sorted(self.acknowledged.values()) == sorted(values)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is."""
    async with asyncio.timeout(SECONDS):
        while not await is_so():
            await asyncio.sleep(0.05)


def in_a_client(broker: tallystick.Broker, story: Callable[[Client, Member], Awaitable[None]]) -> None:
    async def run() -> None:
        client = await Client.connect(broker.bootstrap, patience_s=SECONDS)
        try:
            await story(client, Member(client))
        finally:
            await client.close()

    asyncio.run(run())


def written(broker: tallystick.Broker, word: str, count: int = 60) -> set[bytes]:
    """To all partitions, some records each."""
    values = [f"{word}-{number}".encode() for number in range(count)]
    for partition in range(PARTITIONS):
        assert len(write(broker.bootstrap, TOPIC, values[partition::PARTITIONS], partition=partition).failed) == 0
    return set(values)


async def lags(client: Client) -> list[int]:
    """As the coordinator of the group says, of each partition."""
    topics = [offsets.DescribeOffsetsTopic(topic_name=TOPIC, partitions=list(range(PARTITIONS)))]
    request = offsets.DescribeShareGroupOffsetsRequest(
        groups=[offsets.DescribeOffsetsGroup(group_id=GROUP, topics=topics)]
    )
    answer = await (await client.coordinator(GROUP, COORDINATES_GROUPS)).ask(request, 1)
    told = answer.groups[0].topics[0].partitions
    assert [one.error_code for one in told] == [0] * PARTITIONS
    return [one.lag for one in told]


@pytest.mark.parametrize("whom", ["the coordinator of the group", "another"])
def test_a_group_goes_on_when_a_node_is_killed(broker: tallystick.Broker, whom: str) -> None:
    make_topic(broker.bootstrap, TOPIC, PARTITIONS)

    async def story(client: Client, member: Member) -> None:
        await member.join()
        values = written(broker, "first")
        await member.accept_until(values)
        assert sorted(member.handed) == sorted(values), "each was handed out once"
        assert await lags(client) == [0] * PARTITIONS

        values |= written(broker, "second")
        await until(lambda: holds(member, 60))  # the node is killed before they are acknowledged
        coordinator = broker.coordinator(group=GROUP)
        killed = coordinator if whom == "the coordinator of the group" else coordinator % 3 + 1
        broker.kill_node(killed)
        values |= written(broker, "third")
        await member.accept_until(values)
        assert await lags(client) == [0] * PARTITIONS

        broker.start_node(killed)
        values |= written(broker, "fourth")
        await member.accept_until(values)

    in_a_client(broker, story)


async def holds(member: Member, count: int) -> bool:
    await member.fetch()
    return len(member.held) >= count


def test_who_led_a_share_partition_sends_members_on_and_is_fenced(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, TOPIC, PARTITIONS)

    async def story(client: Client, member: Member) -> None:
        await member.join()
        values = written(broker, "first")
        await member.accept_until(values)
        before = (await client.topic(TOPIC)).partitions[0]
        to = before.leader_id % 3 + 1
        asked = await client.node(before.leader_id)
        values |= written(broker, "second")
        await until(lambda: holds(member, 60))
        broker.move_leader(TOPIC, 0, to=to)

        told = await looked_at(asked, (await client.topic(TOPIC)).topic_id)
        data = told.responses[0].partitions[0]
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert data.current_leader.leader_id == to
        assert data.current_leader.leader_epoch > before.leader_epoch
        (endpoint,) = told.node_endpoints
        assert f"{endpoint.host}:{endpoint.port}" == broker.node_addresses()[to]

        await member.accept_until(values)
        epochs = (before.leader_epoch, data.current_leader.leader_epoch)
        errors = [await said_under(client, (await client.topic(TOPIC)).topic_id, epoch) for epoch in epochs]
        assert errors == [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE]

    in_a_client(broker, story)


async def looked_at(asked: Connection, topic_id: bytes) -> fetching.ShareFetchResponse:
    """What another member is told of the first partition."""
    partitions = [fetching.FetchPartition(partition_index=0, acknowledgement_batches=[])]
    request = fetching.ShareFetchRequest(
        group_id=GROUP,
        member_id="other",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[fetching.FetchTopic(topic_id=topic_id, partitions=partitions)],
        forgotten_topics_data=[],
    )
    answer: fetching.ShareFetchResponse = await asked.ask(request, 2)
    assert answer.error_code == 0
    return answer


async def said_under(client: Client, topic_id: bytes, leader_epoch: int) -> ErrorCode:
    """What the share coordinator of the first partition answers to who leads it, or led it."""
    key = f"{GROUP}:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:0"
    coordinator = await client.coordinator(key, COORDINATES_SHARES)
    data = state.ReadPartitionData(partition=0, leader_epoch=leader_epoch)
    request = state.ReadShareGroupStateRequest(
        group_id=GROUP, topics=[state.ReadStateData(topic_id=topic_id, partitions=[data])]
    )
    answer = await coordinator.ask(request, 0)
    return ErrorCode(answer.results[0].partitions[0].error_code)
