"""`python -m tests.benchmarks.journal [ROUNDS]`: what the journal costs, as a ratio in one run.

Two nodes in one process, one with the journal and one without, take the same requests in turns, from the frame to the
bytes of the answer, without sockets and disks: what a client sees is diluted by those. The quickest turn of each is
compared, for it was disturbed least. A busy machine disturbs such a comparison by more than the journal costs: the
notes of one request are also made by themselves, many times, and compared with the whole.
"""

import asyncio
import sys
import tempfile
import time
import timeit
from collections.abc import Awaitable, Callable
from typing import Any

from broker.api.context import ConnectionInfo, RequestContext
from broker.api.dispatch import Dispatcher
from broker.api.noted.requests import note_batch, peer_of
from broker.config.broker_config import BrokerConfig
from broker.disk.local_files import LocalFiles
from broker.journal.journal import Journal
from broker.node import Node
from broker.process.eager import Finished
from broker.process.environment import RealEnvironment
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from protocol.records.batch import read_header
from protocol.records.record import NewRecord, build_batch
from tests.harness.framing import request_frame

SETTINGS = {
    "tallystick.in.memory": "true",
    "tallystick.durability": "page-cache",
    "num.partitions": "4",
    "tallystick.http": "0",
}
IN_A_TURN = 200
ID = "tx"
RECORD = [NewRecord(value=b"x" * 100, timestamp_ms=1)]


class Asked:
    """A node, asked as a connection asks it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.dispatcher = Dispatcher(node.services, node.catalogue)
        self.connection = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)
        self.plain = request_frame(_produce(None, -1, -1, 0), 12, 1, "bench")[4:]

    async def ask(self, request: object, version: int) -> Any:
        return await self.answer(request_frame(request, version, 1, "bench")[4:])

    async def answer(self, frame: bytes) -> Any:
        call = self.dispatcher.read(self.connection, frame)
        result = self.dispatcher.run(call)
        if asyncio.iscoroutine(result):
            begun = self.node.begin(result)
            result = begun.value if isinstance(begun, Finished) else await begun
        while hasattr(result, "answer"):
            result = await result.answer
        call.encode(result)
        return result

    async def produce(self) -> None:
        """One batch of one record."""
        await self.answer(self.plain)

    async def transact(self) -> None:
        """Ten records each into four partitions, committed, as a client of KIP-890 does it."""
        for partition in range(4):
            await self.ask(_produce(ID, self.identity.producer_id, self.identity.producer_epoch, partition), 12)
        end = EndTxnRequest(
            transactional_id=ID,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=True,
        )
        self.identity = await self.ask(end, 5)

    async def begin(self) -> "Asked":
        services = self.node.services
        await services.topics.ensure_internal("__transaction_state")
        await services.topics.auto_create_all(["t"])
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        self.identity = await self.ask(request, 4)
        return self


def _produce(transactional_id: str | None, producer_id: int, epoch: int, partition: int) -> ProduceRequest:
    records = [NewRecord(value=b"x" * 100, timestamp_ms=1)] * (1 if producer_id < 0 else 10)
    batch = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=-1 if producer_id < 0 else 0,
        transactional=transactional_id is not None,
    )
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[data])


async def _turn(work: Callable[[], Awaitable[None]]) -> float:
    began = time.process_time()
    for _ in range(IN_A_TURN):
        await work()
    return 1e6 * (time.process_time() - began) / IN_A_TURN


class Notes:
    """The notes of one Produce and of one transaction, as the handlers make them, and nothing else."""

    def __init__(self) -> None:
        self.journal = Journal(lambda: time.time_ns() // 1_000_000, 16 << 20)
        connection = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)
        connection.client_id = "bench"
        self.context = RequestContext(connection, 0, 12, 1, connection.client_id)
        self.peer = peer_of(self.journal, self.context)
        self.plain, self.transactional = (
            read_header(
                memoryview(build_batch(RECORD, producer_id=number, producer_epoch=number, transactional=number > 0))
            )
            for number in (-1, 1)
        )

    def produce(self) -> None:
        note_batch(self.journal, self.context, None, ("t", 0), self.plain, 5, 0, 7)

    def transact(self) -> None:
        for partition in range(4):
            if not self.journal.goes_on(ID, 1, 0, partition):
                self._change("Ongoing", "partitions")
            note_batch(self.journal, self.context, ID, ("t", partition), self.transactional, 5, 0, 7)
        asked = self.journal.asked(ID, self.peer, "EndTxn", 5, {"commit": True, "producerId": 1, "epoch": 0})
        self._change("PrepareCommit", "EndTxn, commit")
        for partition in range(4):
            self.journal.marked(1, 0, ("t", partition, 1), commit=True, by_operator=False, error="NONE", now_ms=1)
        self._change("CompleteCommit", "all markers are written")
        self.journal.answered(ID, asked, "NONE", {"producerId": 1, "epoch": 1}, (1, 0))

    def _change(self, state: str, because: str) -> None:
        self.journal.changed(
            ID,
            1,
            state=state,
            producer_id=1,
            epoch=0,
            partitions=4,
            timeout_ms=60_000,
            because=because,
            is_open=state != "CompleteCommit",
        )

    def microseconds(self, work: Callable[[], None]) -> float:
        return min(timeit.repeat(work, number=IN_A_TURN, repeat=100)) * 1e6 / IN_A_TURN


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = LocalFiles(folder)
        environment = RealEnvironment(files, sync_threads=1)
        nodes = [
            Node(BrokerConfig(SETTINGS | {"tallystick.journal.bytes": size}), environment)
            for size in (str(16 << 20), "0")
        ]
        for node in nodes:
            await node.start()
        notes = Notes()
        on, off = [await Asked(node).begin() for node in nodes]
        for title, name in (("a Produce of one record", "produce"), ("a transaction over 4 partitions", "transact")):
            best = {on: float("inf"), off: float("inf")}
            for number in range(rounds):
                for one in (on, off) if number % 2 else (off, on):
                    best[one] = min(best[one], await _turn(getattr(one, name)))
            alone = notes.microseconds(getattr(notes, name))
            print(f"{title}: {best[on]:.1f} us with, {best[off]:.1f} us without: {best[on] / best[off]:.3f}")
            print(f"  its notes by themselves: {alone:.2f} us, {100 * alone / best[off]:.1f} % of it")
        for node in nodes:
            await node.stop()
        environment.close()
        files.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
