"""`kafka-eos-faulty`: the exactly-once sink with one fault at one step of one batch, once.

Options: `fault` is `action@step`, `faultBatch` the batch (1 by default), `faultFlag` a file that says that it has
happened, `faultPid` whom to kill. Steps, in order: starting, opened, writing, written (in the task);
deciding, marked, ended (in the commit worker). Without the flag the same fault would stop every restart.
"""

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from protocol.messages.transactions import DescribeTransactionsRequest
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, Opened
from spark_connector.sink.kafka_eos import EosStreamWriter, KafkaEos
from spark_connector.sink.settings import SinkSettings
from tallystick.client.client import TRANSACTION
from tallystick.client.lease import Lease, take_lease
from tests.spark.steps import TASK_STEPS


@dataclass(frozen=True)
class Fault:
    action: str
    step: str
    batch: int
    flag: str
    pid: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Fault":
        action, _, step = options.get("fault", "none@never").partition("@")
        return cls(
            action, step, int(options.get("faultBatch", 1)), options["faultFlag"], int(options.get("faultPid", 0))
        )

    def reach(self, step: str, transaction: "FaultyTransaction") -> None:
        flag = Path(self.flag)
        if step != self.step or transaction.batch.number != self.batch or flag.exists():
            return
        flag.write_text(step)
        if self.action == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "pid":
            os.kill(self.pid, signal.SIGKILL)
            if step in TASK_STEPS:
                return
        elif self.action == "raise":
            raise RuntimeError(f"a fault at {step}")
        elif self.action == "takeover":
            transaction.taken_over()
        elif self.action == "outlive":
            transaction.outlived()


class FaultyTransaction(BatchTransaction):
    """The steps, with the fault between them."""

    fault: Fault

    def open(self) -> Opened:
        self.fault.reach("starting", self)
        opened = super().open()
        self.fault.reach("opened", self)
        return opened

    def write(self, lease: Lease, rows: Iterable[Any]) -> Counts:
        def with_fault() -> Iterator[Any]:
            for number, batch in enumerate(rows):
                yield batch
                if number == 0:
                    self.fault.reach("writing", self)

        counts = super().write(lease, with_fault())
        self.fault.reach("written", self)
        return counts

    def mark(self, lease: Lease, counts: Counts) -> None:
        self.fault.reach("deciding", self)
        super().mark(lease, counts)
        self.fault.reach("marked", self)

    def end(self, lease: Lease) -> None:
        super().end(lease)
        self.fault.reach("ended", self)

    def taken_over(self) -> None:
        """What a second driver does to the first."""
        taking = take_lease(self.connection.client, self.sink_id, timeout_ms=60_000, patience_s=30)
        self.connection.run(taking, "taking over")

    def outlived(self) -> None:
        """Stay until the broker has aborted the transaction for its age."""
        self.connection.run(self._until_aborted(), "outliving the timeout")

    async def _until_aborted(self) -> None:
        request = DescribeTransactionsRequest(transactional_ids=[self.sink_id])
        state = "Ongoing"
        while state in ("Ongoing", "PrepareAbort", "PrepareEpochFence"):
            coordinator = await self.connection.client.coordinator(self.sink_id, TRANSACTION)
            (found,) = (await coordinator.ask(request)).transaction_states
            state = found.transaction_state
            await asyncio.sleep(0.05)


class FaultyWriter(EosStreamWriter):
    def __init__(self, settings: SinkSettings, fault: Fault) -> None:
        super().__init__(settings)
        self.fault = fault

    def transaction(self, batch: BatchId) -> FaultyTransaction:
        transaction = FaultyTransaction(self.settings, self.sink_id, batch)
        transaction.fault = self.fault
        return transaction


class FaultyEos(KafkaEos):
    @classmethod
    def name(cls) -> str:
        return "kafka-eos-faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyWriter:
        return FaultyWriter(SinkSettings.of(self.options, streaming=True), Fault.of(self.options))
