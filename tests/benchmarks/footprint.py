"""What a broker costs before and after the work: start, memory, restart after kill -9."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.record import NewRecord, build_batch
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.benchmarks import loads
from tests.benchmarks.loads import Figures, LoadFailed
from tests.benchmarks.machine import resident_mb, settle
from tests.benchmarks.rivals import Rival
from tests.harness.apache_kafka import answers_api_versions
from tests.harness.proxy import free_port

LOG_GB = 5
RECORD_BYTES = 10_000
PRODUCERS = 20_000
BATCHES_EACH = 5
BURST = 200


def start(rival: Rival, folder: Path, turn: int) -> Figures:
    """From the beginning of the process, on an empty data folder, to the first answer to ApiVersions; then at rest."""
    broker = rival.make(folder / f"start-{turn}")
    try:
        broker.port = free_port()
        _warm_format(broker)
        milliseconds = _until_answered(broker)
        time.sleep(1.0)  # what a start leaves to the background is done
        return {"start": milliseconds, "memory_idle": resident_mb(broker.pid)}
    finally:
        broker.close()


def _warm_format(broker: BrokerProcess) -> None:
    """Kafka's data folder is formatted by a tool of its own; that is no part of its start."""
    format_folder: Callable[[], None] | None = getattr(broker, "_format", None)
    if format_folder is not None:
        broker.folder.mkdir(parents=True, exist_ok=True)
        format_folder()


def _until_answered(broker: BrokerProcess) -> float:
    """Milliseconds until somebody answers. The process is started beside, for `start` waits for the ready file."""
    began = time.perf_counter()
    answered = 0.0
    original = broker._wait_until_ready

    def wait(ready: Path) -> str:
        nonlocal answered
        while not answers_api_versions(broker.port):
            if not broker.running or time.perf_counter() - began > broker.start_seconds:
                break
            time.sleep(0.001)
        answered = time.perf_counter()
        return original(ready)

    broker._wait_until_ready = wait  # type: ignore[method-assign]
    try:
        broker.start()
    finally:
        broker._wait_until_ready = original  # type: ignore[method-assign]
    return (answered - began) * 1e3


def restart(rival: Rival, folder: Path, turn: int) -> Figures:
    """kill -9 and again, with next to nothing in the log and with 5 GB: to the first answer, to the first produce."""
    broker = rival.make(folder / f"restart-{turn}")
    try:
        broker.port = free_port()
        _warm_format(broker)
        broker.start()
        topic = loads._topic(broker.bootstrap, "kept")
        loads._produce(broker.bootstrap, topic, 100, 4)
        empty, empty_produce = _kill_and_again(broker, topic)
        loads._produce(broker.bootstrap, topic, RECORD_BYTES, LOG_GB * 10**9 // RECORD_BYTES)
        full, full_produce = _kill_and_again(broker, topic)
        settle()
        return {
            "restart_empty": empty,
            "restart_full": full,
            "restart_empty_produce": empty_produce,
            "restart_full_produce": full_produce,
        }
    finally:
        broker.close()


def _kill_and_again(broker: BrokerProcess, topic: str) -> tuple[float, float]:
    broker.kill()
    began = time.perf_counter()
    answered = _until_answered(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 2})
    producer.produce(topic, b"first", partition=0)
    if producer.flush(loads.PATIENCE_S):
        raise LoadFailed("nothing was taken after the restart")
    return answered, (time.perf_counter() - began) * 1e3


def producers(rival: Rival, folder: Path, turn: int) -> Figures:
    """Memory per idle idempotent producer of which five batches are remembered."""
    broker = rival.make(folder / f"producers-{turn}")
    try:
        broker.start()
        topic = loads._topic(broker.bootstrap, "many")
        asyncio.run(_write_as(broker, topic, range(1_000_000, 1_002_000)))
        before = resident_mb(broker.pid)
        asyncio.run(_write_as(broker, topic, range(2_000_000, 2_000_000 + PRODUCERS)))
        return {"producer_bytes": (resident_mb(broker.pid) - before) * 1e6 / PRODUCERS}
    finally:
        broker.close()


async def _write_as(broker: BrokerProcess, topic: str, producer_ids: range) -> None:
    """Five batches of each of many producers, by our own client, for no library has so many."""
    connection = await Connection.connect("127.0.0.1", broker.port)
    for first in range(producer_ids.start, producer_ids.stop, BURST):
        answers = []
        for producer_id in range(first, min(first + BURST, producer_ids.stop)):
            for sequence in range(BATCHES_EACH):
                record = NewRecord(key=None, value=b"x", timestamp_ms=1_700_000_000_000)
                batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
                data = [PartitionProduceData(index=producer_id % loads.PARTITIONS, records=memoryview(batch))]
                topics = [TopicProduceData(name=topic, partition_data=data)]
                answers.append(connection.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), 9))
        for answer in await asyncio.gather(*answers):
            if answer.responses[0].partition_responses[0].error_code:
                raise LoadFailed(f"{topic}: {answer}")
    await connection.close()


FOOTPRINTS: dict[str, Callable[[Rival, Path, int], Figures]] = {
    "start": start,
    "producers": producers,
    "restart": restart,
}
