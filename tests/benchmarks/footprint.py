"""What needs brokers of its own: starts, restarts after kill -9, memory at rest, memory per producer."""

import asyncio
import compileall
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.transactions import InitProducerIdRequest
from protocol.records.record import NewRecord, build_batch
from tallystick.client.client import TRANSACTION, Client
from tallystick.client.connection import Connection
from tests.benchmarks.loads import QUIET, Figures, drop, fresh, produce
from tests.benchmarks.rows import (
    MEMORY_IDLE,
    PRODUCER_MEMORY,
    RESTART,
    START,
    TRANSACTIONAL_MEMORY,
    recovery_title,
)
from tests.benchmarks.targets import PAGE_CACHE, Target, make, timed_start

PRODUCERS = 20_000
BATCHES_EACH = 5
AT_ONCE = 200
Note = Callable[[str, str, Figures], None]
"""(row, target, figures)"""


def starts(names: list[str], rounds: int, folder: Path, note: Note) -> None:
    """Each broker alone: an orderly start on a folder it knows, its memory at rest, a start after kill -9."""
    for package in ("protocol", "keystores", "storage", "coordinator", "broker", "tallystick"):
        compileall.compile_dir(package, quiet=1)  # as an installation leaves them; a work tree may have edited ones
    for name in names:
        target = make(name, folder / "starts")
        try:
            target.process.start()
            for _ in range(rounds):
                target.process.stop(seconds=60)
                note(START, name, {"ms": timed_start(target)})
                time.sleep(3)
                note(MEMORY_IDLE, name, {"MB": target.resident_mb()})
                target.process.kill()
                note(RESTART, name, {"ms": timed_start(target)})
        finally:
            target.close()


def recovery(names: list[str], gigabytes: float, rounds: int, folder: Path, note: Note) -> None:
    """kill -9 with a long log, and with an empty one: until the first produce is acknowledged."""
    for name in names:
        for size in (0.0, gigabytes):
            target = make(name, folder / f"recovery-{size:g}")
            try:
                target.process.start()
                topic, _ = produce(target.bootstrap, 10_000, max(100, int(size * 1e5)))
                for _ in range(rounds):
                    target.process.kill()
                    note(recovery_title(size), name, {"ms": _first_produce(target, topic)})
                drop(target.bootstrap, topic)
            finally:
                target.close()


def _first_produce(target: Target, topic: str) -> float:
    began = time.perf_counter()
    timed_start(target)
    sender = Producer({**QUIET, "bootstrap.servers": target.bootstrap, "linger.ms": 0})
    sender.produce(topic, b"first", partition=0)
    assert sender.flush(60) == 0
    return 1000 * (time.perf_counter() - began)


def producers(folder: Path, note: Note) -> None:
    """Memory per idle idempotent producer of which five batches are remembered. Of us alone: what a Java heap has
    taken says nothing of one producer."""
    target = make(PAGE_CACHE, folder / "producers")
    try:
        target.process.start()
        topic = fresh(target.bootstrap, 1)
        asyncio.run(_write_as(target, topic, range(1_000_000, 1_001_000)))
        before = target.resident_mb()
        asyncio.run(_write_as(target, topic, range(2_000_000, 2_000_000 + PRODUCERS)))
        note(PRODUCER_MEMORY, PAGE_CACHE, {"bytes": (target.resident_mb() - before) * 1e6 / PRODUCERS})
    finally:
        target.close()


def transactional_ids(folder: Path, note: Note) -> None:
    """Memory per transactional id that has been claimed and does nothing."""
    target = make(PAGE_CACHE, folder / "ids")
    try:
        target.process.start()
        asyncio.run(_claim(target, range(1000)))
        before = target.resident_mb()
        asyncio.run(_claim(target, range(1000, 1000 + PRODUCERS)))
        note(TRANSACTIONAL_MEMORY, PAGE_CACHE, {"bytes": (target.resident_mb() - before) * 1e6 / PRODUCERS})
    finally:
        target.close()


async def _claim(target: Target, numbers: range) -> None:
    client = await Client.connect(target.bootstrap)
    await client.coordinator("any", TRANSACTION)
    await client.close()
    connection = await Connection.connect("127.0.0.1", target.process.port)
    for first in range(numbers.start, numbers.stop, AT_ONCE):
        requests = [
            InitProducerIdRequest(transactional_id=f"service-{number}", transaction_timeout_ms=60_000)
            for number in range(first, min(first + AT_ONCE, numbers.stop))
        ]
        left = requests
        while left:  # a request to a coordinator that is still loading is repeated
            answers = await asyncio.gather(*[connection.ask(request, 4) for request in left])
            left = [request for request, answer in zip(left, answers, strict=True) if answer.error_code]
    await connection.close()


async def _write_as(target: Target, topic: str, producer_ids: range) -> None:
    """Five batches of each of many producers, by our own client: no library has so many."""
    connection = await Connection.connect("127.0.0.1", target.process.port)
    for first in range(producer_ids.start, producer_ids.stop, AT_ONCE):
        answers = [
            connection.ask(_one_record(topic, producer_id, sequence), 9)
            for producer_id in range(first, min(first + AT_ONCE, producer_ids.stop))
            for sequence in range(BATCHES_EACH)
        ]
        for answer in await asyncio.gather(*answers):
            assert answer.responses[0].partition_responses[0].error_code == 0
    await connection.close()


def _one_record(topic: str, producer_id: int, sequence: int) -> ProduceRequest:
    record = NewRecord(key=None, value=b"x", timestamp_ms=1_700_000_000_000)
    batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    data = [PartitionProduceData(index=0, records=memoryview(batch))]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
