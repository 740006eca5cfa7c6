"""What the pages are about: a broker with records of every fate, a group that is behind, open transactions."""

import json
from dataclasses import dataclass

from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.records.record import NewRecord, build_batch
from tallystick.client.background import background_loop, now_ms
from tallystick.client.client import GROUP, Client
from tallystick.client.errors import check
from tests.harness.transactional import TransactionalProducer

TOPIC = "orders"
HOSTILE_TOPIC = "customers.changes"
"""Its first records want to be more than text; then one of bytes, and one of nothing."""
HOSTILE = '<script>document.title = "taken"</script>'
TURNING = "abc\u202etxt.exe"
GROUP_NAME = "billing"
ODD_ID = "checkout/eu west?&#1"


@dataclass(frozen=True, slots=True)
class Staged:
    """Offsets of what was written into partition 0."""

    committed: int
    aborted: int
    open: int
    behind_open: int


def _order(number: int, state: str) -> NewRecord:
    value = {"order": 4000 + number, "customer": f"C-{100 + number % 7}", "total": round(12.5 + number * 3.1, 2)}
    text = json.dumps(value | {"state": state})
    headers = (("trace", f"4bf92f35{number:04x}".encode()), ("source", b"shop"))
    return NewRecord(text.encode(), f"order-{4000 + number}".encode(), now_ms(), headers)


async def _write(client: Client, topic: str, records: list[NewRecord], partition: int = 0) -> int:
    async def attempt() -> int:
        answer = await client.produce(topic, partition, build_batch(records))
        check(answer.error_code, answer.error_message)
        return int(answer.base_offset)

    return await client.patiently(attempt)


async def _transaction(
    client: Client, name: str, numbers: range, end: str, *, partitions: tuple[int, ...] = (0,)
) -> tuple[TransactionalProducer, int]:
    producer = TransactionalProducer(client, name, timeout_ms=900_000)
    await producer.init()
    producer.begin()
    first = -1
    for partition in partitions:
        records = [_order(number, "paid" if end != "abort" else "refused") for number in numbers]
        base = int((await producer.produce(TOPIC, partition, records)).base_offset)
        first = base if partition == 0 else first
    if end == "commit":
        await producer.commit()
    elif end == "abort":
        await producer.abort()
    return producer, first


async def stage(bootstrap: str) -> Staged:
    """Everything, in a fixed order."""
    client = await Client.connect(bootstrap)
    try:
        await client.create_topic(TOPIC, 3, {"retention.ms": "86400000"})
        for name in ("payments", "shipments", HOSTILE_TOPIC):
            await client.create_topic(name, 2)
        await _write(
            client,
            HOSTILE_TOPIC,
            [
                NewRecord(HOSTILE.encode(), HOSTILE.encode(), now_ms(), ((HOSTILE, HOSTILE.encode()),)),
                NewRecord(TURNING.encode(), b"turning", now_ms()),
                NewRecord(bytes(range(200, 232)), b"binary", now_ms()),
                NewRecord(None, b"tombstone", now_ms()),
            ],
        )
        await _write(client, TOPIC, [_order(18, "imported"), _order(19, "imported")])
        _, committed = await _transaction(client, "checkout-1", range(6), "commit", partitions=(0, 1))
        _, aborted = await _transaction(client, "checkout-2", range(6, 9), "abort", partitions=(0, 2))
        await _transaction(client, "checkout-1", range(9, 12), "commit")
        _, opened = await _transaction(client, ODD_ID, range(12, 14), "leave open", partitions=(0, 1))
        _, behind = await _transaction(client, "checkout-3", range(14, 16), "commit")
        await _write(client, TOPIC, [_order(20, "imported")])
        await _commit(client, {0: committed + 2, 1: 0})
        return Staged(committed, aborted, opened, behind)
    finally:
        await client.close()


async def _commit(client: Client, offsets: dict[int, int]) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=offset, committed_metadata="")
        for number, offset in offsets.items()
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    request = OffsetCommitRequest(group_id=GROUP_NAME, member_id="", topics=[topic])

    async def attempt() -> None:
        coordinator = await client.coordinator(GROUP_NAME, GROUP)
        answer = await coordinator.ask(request, 9)
        for one in answer.topics[0].partitions:
            check(one.error_code)

    await client.patiently(attempt)


def staged(bootstrap: str) -> Staged:
    """On a loop of its own: a browser that is driven has one in this thread."""
    return background_loop().run(stage(bootstrap))
