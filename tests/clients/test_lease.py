"""Leases: a transaction that several writers fill and anybody may end, with the rules of both protocols."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import permutations
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from protocol.records.batch import read_header
from protocol.records.record import NewRecord, build_batch
from tallystick.client.background import BackgroundLoop, background_loop
from tallystick.client.client import LATEST, Client
from tallystick.client.connection import Connection
from tallystick.client.errors import Fenced, KafkaError, TransactionGone
from tallystick.client.lease import Lease, commit_offsets, end_transaction, take_lease
from tallystick.client.reading import read_all
from tallystick.client.sender import Queued, Sender
from tallystick.process import BrokerProcess
from tests.harness.confluent import consumer

PATIENCE_S = 280.0  # Apache Kafka, killed, takes a while to come back; on a loaded box a long one.
PROTOCOLS = [pytest.param(True, id="TV2"), pytest.param(False, id="old-rules")]


def batch(*values: bytes) -> bytearray:
    return bytearray(build_batch([NewRecord(value=value) for value in values], transactional=True))


def run(bootstrap: str, story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def run_story() -> None:
        client = await Client.connect(bootstrap)
        try:
            await story(client)
        finally:
            await client.close()

    asyncio.run(run_story())


async def leased(client: Client, name: str, *, implicit: bool = True, timeout_ms: int = 60_000) -> Lease:
    lease = await take_lease(client, name, timeout_ms=timeout_ms, patience_s=PATIENCE_S)
    return lease if implicit else replace(lease, implicit=False)


async def write(client: Client, lease: Lease, topic: str, content: dict[int, list[bytes]]) -> None:
    sender = Sender(client, lease, patience_s=PATIENCE_S)
    await sender.offer(((topic, partition), batch(value)) for partition, values in content.items() for value in values)
    await sender.flush()
    assert {where[1]: totals.records for where, totals in sender.totals.items()} == {
        p: len(content[p]) for p in content
    }


async def visible(client: Client, topic: str, partitions: int) -> list[list[bytes | None]]:
    return [[record.value for record in await read_all(client, topic, number)] for number in range(partitions)]


async def settled(client: Client, topic: str, partitions: int) -> list[list[bytes | None]]:
    """What is visible once all decided markers are written: the EndTxn response comes before its markers."""
    for number in range(partitions):
        while await client.offset_at(topic, number, LATEST, read_committed=True) < await client.offset_at(
            topic, number, LATEST
        ):
            await asyncio.sleep(0.01)
    return await visible(client, topic, partitions)


async def commit(client: Client, lease: Lease) -> None:
    await end_transaction(client, lease, commit=True, patience_s=PATIENCE_S)


@pytest.mark.parametrize("implicit", PROTOCOLS)
def test_writers_on_several_connections_and_an_end_from_another(bootstrap: str, name: str, implicit: bool) -> None:
    async def story(client: Client) -> None:
        await client.create_topic(name, 4)
        lease = await leased(client, name, implicit=implicit)
        writers = [await Client.connect(bootstrap) for _ in range(2)]
        for number, writer in enumerate(writers):
            await write(writer, lease, name, {2 * number: [b"a", b"b", b"c"], 2 * number + 1: [b"d"]})
        assert await visible(client, name, 4) == [[], [], [], []]
        await commit(client, lease)
        assert await settled(client, name, 4) == [[b"a", b"b", b"c"], [b"d"]] * 2
        await commit(client, lease)  # As if its answer had been lost.
        with pytest.raises(TransactionGone):
            await end_transaction(client, lease, commit=False, patience_s=PATIENCE_S)
        for writer in writers:
            await writer.close()

    run(bootstrap, story)


@pytest.mark.parametrize("implicit", PROTOCOLS)
def test_the_next_lease_fences_and_settles_the_one_before(bootstrap: str, name: str, implicit: bool) -> None:
    async def story(client: Client) -> None:
        await client.create_topic(name)
        old = await leased(client, name, implicit=implicit)
        await write(client, old, name, {0: [b"old"]})
        new = await leased(client, name, implicit=implicit)
        with pytest.raises(Fenced):
            await write(client, old, name, {0: [b"zombie"]})
        with pytest.raises(Fenced):
            await commit(client, old)
        await write(client, new, name, {0: [b"new"]})
        await commit(client, new)
        assert await settled(client, name, 1) == [[b"new"]]

    run(bootstrap, story)


@pytest.mark.parametrize("implicit", PROTOCOLS)
def test_offsets_of_a_group_come_with_the_transaction(bootstrap: str, name: str, implicit: bool) -> None:
    def committed() -> int:
        reader = consumer(bootstrap, group__id=name)
        try:
            return int(reader.committed([TopicPartition(name, 0)], 30)[0].offset)
        finally:
            reader.close()

    async def story(client: Client) -> None:
        await client.create_topic(name)
        lease = await leased(client, name, implicit=implicit)
        await write(client, lease, name, {0: [b"x"]})
        await commit_offsets(client, lease, name, {(name, 0): 41}, patience_s=PATIENCE_S)
        await commit(client, lease)
        assert await asyncio.to_thread(committed) == 41

    run(bootstrap, story)


def test_an_end_after_the_timeout_says_that_it_is_over(bootstrap: str, name: str) -> None:
    """The broker aborts by bumping the epoch; the writer learns that nothing will be seen."""

    async def story(client: Client) -> None:
        await client.create_topic(name)
        lease = await leased(client, name, timeout_ms=500)
        await write(client, lease, name, {0: [b"late"]})
        while await client.offset_at(name, 0, LATEST, read_committed=True) == 0:
            await asyncio.sleep(0.05)
        with pytest.raises((Fenced, TransactionGone)):
            await commit(client, lease)
        assert await settled(client, name, 1) == [[]]

    run(bootstrap, story)


def test_errors_of_settings_are_reported_unchanged(bootstrap: str, name: str) -> None:
    async def story(client: Client) -> None:
        with pytest.raises(KafkaError, match="INVALID_TRANSACTION_TIMEOUT"):
            await leased(client, name, timeout_ms=2_000_000_000)

    run(bootstrap, story)


def test_sequence_numbers_begin_anew_after_31_bits(bootstrap: str, name: str) -> None:
    async def story(client: Client) -> None:
        sender = Sender(client, Lease(name, 1, 0, True), patience_s=PATIENCE_S)
        sender._sequences[name, 0] = 0x7FFFFFFE
        begins = []
        for _ in range(2):
            queued = Queued((name, 0), batch(b"x", b"y", b"z"), 3)
            sender._number(queued)
            begins.append(read_header(queued.batch).base_sequence)
        assert begins == [0x7FFFFFFE, 1]

    run(bootstrap, story)


def test_of_several_errors_one_that_does_not_pass_is_raised() -> None:
    for errors in permutations([(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0"), (ErrorCode.MESSAGE_TOO_LARGE, "t-1")]):
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE: t-1"):
            Sender._raise_worst(errors)


def test_what_a_leader_knows_already_is_acknowledged(bootstrap: str, name: str) -> None:
    """It was written by a request whose answer was lost, and longer ago than a broker remembers where (KIP-98)."""

    class Leader:
        def version_for(self, _request: type) -> int:
            return 9

        async def ask(self, request: ProduceRequest, _version: int) -> ProduceResponse:
            asked = request.topic_data[0].partition_data[0].index
            known = PartitionProduceResponse(
                index=asked, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1
            )
            return ProduceResponse(responses=[TopicProduceResponse(name=name, partition_responses=[known])])

    async def story(client: Client) -> None:
        await client.create_topic(name)
        sender = Sender(client, Lease(name, 1, 0, True), patience_s=PATIENCE_S)
        queued = Queued((name, 0), batch(b"x", b"y"), 2)
        sender._queues[name, 0] = deque([queued])
        await sender._produce(cast(Connection, Leader()), [queued])
        assert sender.totals[name, 0].records == 2 and not sender._queues[name, 0]

    run(bootstrap, story)


def test_an_offer_waits_for_room(bootstrap: str, name: str) -> None:
    """What waits is bounded, whatever the size of what is offered."""

    async def story(client: Client) -> None:
        await client.create_topic(name, 2)
        lease = await leased(client, name)
        sender = Sender(client, lease, patience_s=PATIENCE_S, room_bytes=1000)
        await sender.offer(((name, number % 2), batch(b"%03d" % number + b"." * 300)) for number in range(40))
        assert sum(totals.batches for totals in sender.totals.values()) >= 37
        await sender.flush()
        await commit(client, lease)
        found = await settled(client, name, 2)
        assert [value[:3] for value in found[0] if value] == [b"%03d" % number for number in range(0, 40, 2)]

    run(bootstrap, story)


@pytest.mark.parametrize("implicit", PROTOCOLS)
def test_a_killed_broker_costs_nothing_but_time(own_broker: Callable[..., BrokerProcess], implicit: bool) -> None:
    """Every request is repeated with the same epoch and sequences, in the middle of sending and before the end."""
    broker = own_broker().start()

    async def killed(meanwhile: Callable[[], Coroutine[Any, Any, None]]) -> None:
        broker.kill()
        waiting = asyncio.ensure_future(meanwhile())
        await asyncio.to_thread(broker.start)
        await waiting

    async def story(client: Client) -> None:
        await client.create_topic("t", 2)
        lease = await leased(client, "kills", implicit=implicit)
        sender = Sender(client, lease, patience_s=PATIENCE_S)
        for number in range(30):
            await sender.offer([(("t", number % 2), batch(b"%02d" % number))])
            if number == 15:
                await killed(sender.flush)
        await sender.flush()
        await killed(lambda: commit(client, lease))
        assert await settled(client, "t", 2) == [
            [b"%02d" % number for number in range(first, 30, 2)] for first in (0, 1)
        ]

    run(broker.bootstrap, story)


def test_a_process_has_one_loop_that_returns_errors() -> None:
    async def fails() -> None:
        raise ValueError("this one")

    assert background_loop() is background_loop() and isinstance(background_loop(), BackgroundLoop)
    with pytest.raises(ValueError, match="this one"):
        background_loop().run(fails())
