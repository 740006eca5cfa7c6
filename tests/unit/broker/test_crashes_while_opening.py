"""A start that does not come to its end: what it has done to a log so far does the next one no harm."""

import asyncio
from random import Random

import pytest

from broker.node import Node
from coordinator.machine import Marker
from protocol.records.record import NewRecord, build_batch
from storage.producers.aborted import AbortedTransaction
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_restarts import life, opened

PRODUCER = 7
ROUNDS = 6


async def writes(node: Node) -> None:
    """Transactions that are aborted, all of it acknowledged."""
    partition = await opened(node)
    for sequence in range(ROUNDS):
        records = build_batch(
            [NewRecord(value=b"v", timestamp_ms=1)],
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        now_ms = node.environment.wall_ms()
        partition.append(memoryview(records), transactional_id="x", verification=False, now_ms=now_ms)
        marker = Marker(
            producer_id=PRODUCER, producer_epoch=0, commit=False, coordinator_epoch=0, transaction_version=0
        )
        partition.append_marker(marker, now_ms)
        if sequence == ROUNDS // 2:
            partition.derived.snapshot()
    await (partition.committed(partition.end_offset) or asyncio.sleep(0))


async def finds_all(node: Node) -> None:
    await node.services.topics.wait_until_open()
    partition = node.services.topics.partition("t", 0)
    assert partition is not None
    assert (partition.high_watermark, partition.last_stable_offset) == (2 * ROUNDS, 2 * ROUNDS)
    assert partition.derived.producers.next_sequence(PRODUCER) == ROUNDS
    assert partition.derived.aborted.collect(0, 2 * ROUNDS) == [
        AbortedTransaction(PRODUCER, 2 * number, 2 * number + 1, 2 * number + 2) for number in range(ROUNDS)
    ]


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
def test_a_crash_at_any_moment_of_opening_takes_nothing(power_cut: bool) -> None:
    """Between any two changes to the files of a log, and again in the next start."""
    files = SimulatedFiles()
    life(files, writes, stop=False)
    found = files.crash(Random(1)) if power_cut else files.kill()
    moments: list[SimulatedFiles] = []

    def remember(_: str, path: str) -> None:
        if path.startswith("t-0"):
            moments.append(found.kill())

    found.watcher = remember
    life(found, finds_all, boot="c" if power_cut else "b", stop=False)
    assert len(moments) > 5, "opening it changes files"
    for drawn, moment in enumerate(moments):
        life(moment.crash(Random(drawn)), finds_all, boot="d")
        life(moment, finds_all, boot="c" if power_cut else "b")
