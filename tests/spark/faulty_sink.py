"""`kafka-eos-faulty`: the exactly-once sink with one fault at one step of one batch, once.

Options: `fault` is `action@step`, `faultBatch` the batch (1 by default), `faultFlag` a file that says that it has
happened, `faultPid` whom to kill. Steps, in order: starting, opened, writing, written (in the task);
deciding, marked, ended (in the commit worker). Without the flag the same fault would stop every restart.
Beside the flag lie `.pid`, of the faulty process; `.go`, which ends action `wait`; `.error`, what failed after it;
`.refused`, why a batch was not committed. With `overtaken` the first attempt of a task goes on once a second one has
opened the batch (`.second`), and that one once the first has failed; with `linger` it goes on once a second one begins.
Where tasks write in turns there are two steps more: taken (a turn) and answered (what was written in it; the turn is
not given back yet). `faultOthers` is what the other tasks of the batch do meanwhile: `wait` with their ends until the
driver knows that one is lost; `done`: the one that is to be lost waits until another one is done. With `faultAlone`
tasks know of no driver.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from protocol.messages.transactions import DescribeTransactionsRequest
from spark_connector.checkpoint_files import Files
from spark_connector.errors import BatchIncomplete
from spark_connector.sink.batch_server import Sharing, TurnsOfBatch
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, Opened
from spark_connector.sink.kafka_eos import EosStreamWriter, KafkaEos, Written
from spark_connector.sink.lease_notes import Notes
from spark_connector.sink.settings import SinkSettings
from spark_connector.sink.turn_sender import TurnSender
from tallystick.client.client import TRANSACTION
from tallystick.client.lease import Lease, take_lease
from tallystick.client.sender import Sender
from tests.harness.stepping_sender import stepping
from tests.spark.steps import TASK_STEPS

_WAITING = {"wait": "go", "overtaken": "second", "linger": "second"}
"""Actions that wait for a file."""


@dataclass(frozen=True)
class Fault:
    action: str
    step: str
    batch: int
    flag: str
    pid: int
    others: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Fault":
        action, _, step = options.get("fault", "none@never").partition("@")
        batch, pid = int(options.get("faultBatch", 1)), int(options.get("faultPid", 0))
        return cls(action, step, batch, options["faultFlag"], pid, options.get("faultOthers", ""))

    def reach(self, step: str, transaction: "FaultyTransaction") -> None:
        flag = Path(self.flag)
        if self.action == "freeze" and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # No other thread may, and there are steps in another one.
        if transaction.batch.number != self.batch:
            return
        if flag.exists():
            self._overtake(step)
        elif step == self.step and self._is_chosen():
            self._strike(step, flag, transaction)

    def _is_chosen(self) -> bool:
        """Whether this task is the one that meets the fault, and it is time. Of tasks that come at the same moment it
        is one: two that wait would take all the cores of a session, and nothing else would run in it.
        """
        try:
            Path(f"{self.flag}.chosen").touch(exist_ok=False)
        except FileExistsError:
            return False
        if self.others == "done":
            self._until("done")
        return True

    def let_it_happen(self, transaction: "FaultyTransaction") -> None:
        """Before a task says that it is done: wait until the driver knows of the loss of another one."""
        turns = transaction.turns
        if self.others != "wait" or transaction.batch.number != self.batch or not isinstance(turns, TurnsOfBatch):
            return
        asking, batch, life = Sharing(turns._address, turns._begin["token"]), turns._begin["batch"], turns.part.life
        while life == 0:
            try:
                transaction.connection.run(asking.complete(batch, life, {}), "asking")
            except BatchIncomplete as error:
                if "the tasks have told" not in str(error):
                    return
            time.sleep(0.02)

    def _strike(self, step: str, flag: Path, transaction: "FaultyTransaction") -> None:
        Path(f"{flag}.pid").write_text(str(os.getpid()))
        flag.write_text(step)
        if self.action == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "pid":
            os.kill(self.pid, signal.SIGKILL)
            if step in TASK_STEPS:
                return
        elif self.action == "executor":
            java = next(one for one in psutil.Process().parents() if one.name() == "java")
            java.kill()
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "raise":
            raise RuntimeError(f"a fault at {step}")
        elif self.action == "freeze":
            # It outlives its driver, as on a machine that was cut off: nothing of its session's end reaches it.
            os.setsid()
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.action in _WAITING:
            self._until(_WAITING[self.action])
        elif self.action == "takeover":
            transaction.taken_over()
        elif self.action == "outlive":
            transaction.outlived()

    def _until(self, what: str) -> None:
        while not Path(f"{self.flag}.{what}").exists():
            time.sleep(0.02)

    def _overtake(self, step: str) -> None:
        """The second attempt of a task, if that is requested."""
        if self.action == "overtaken" and step == "opened" and self.pid_that_met_it() != os.getpid():
            Path(f"{self.flag}.second").touch()
            self._until("error")

    def pid_that_met_it(self) -> int | None:
        met = Path(f"{self.flag}.pid")
        return int(met.read_text()) if met.exists() else None

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Keep what fails in the process that met the fault: a zombie cannot report it otherwise."""
        try:
            yield
        except Exception as error:
            if self.pid_that_met_it() == os.getpid():
                Path(f"{self.flag}.error").write_text(f"{type(error).__name__}: {error}")
            raise


class FaultyTransaction(BatchTransaction):
    """The steps, with the fault between them."""

    fault: Fault

    def open(self) -> Opened:
        self.fault.reach("starting", self)
        opened = super().open()
        self.fault.reach("opened", self)
        return opened

    def write(self, lease: Lease, rows: Iterable[Any]) -> Counts:
        freezes = self.fault.action in ("freeze", "overtaken")

        def with_fault() -> Iterator[Any]:
            for number, batch in enumerate(list(rows) if freezes else rows):
                if freezes and number == 0:
                    self.fault.reach("writing", self)  # What is drawn can be sent when Spark is gone.
                yield batch
                if number == 0:
                    self.fault.reach("writing", self)

        with self.fault.telling():
            counts = super().write(lease, with_fault())
        self.fault.reach("written", self)
        self.fault.let_it_happen(self)
        return counts

    def _sender(self, lease: Lease) -> Sender:
        made = super()._sender(lease)
        return stepping(made, lambda step: self.fault.reach(step, self)) if isinstance(made, TurnSender) else made

    _read: list[str] | None = None

    def _source(self) -> list[str]:
        """A zombie has read the checkpoint before its driver died: so it is the broker that must refuse it."""
        if self._read is None:
            self._read = super()._source()
        return self._read

    def mark(self, lease: Lease, counts: Counts) -> None:
        self._source()
        self.fault.reach("deciding", self)
        with self.fault.telling():
            super().mark(lease, counts)
        self.fault.reach("marked", self)

    def end(self, lease: Lease) -> None:
        with self.fault.telling():
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
    def __init__(
        self, settings: SinkSettings, files: Files, notes: Notes | None, sharing: Sharing | None, fault: Fault
    ) -> None:
        super().__init__(settings, files, notes, sharing)
        self.fault = fault

    def run_task(self, rows: Iterator[Any], transaction: BatchTransaction) -> Written:
        context = TaskContext.get()
        if self.fault.action == "linger" and context is not None and context.attemptNumber() > 0:
            Path(f"{self.fault.flag}.second").touch()
        written = super().run_task(rows, transaction)
        if transaction.batch.number == self.fault.batch and written.counts:
            Path(f"{self.fault.flag}.done").touch()
        return written

    def decide(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        try:
            super().decide(messages)
        except Exception as error:
            Path(f"{self.fault.flag}.refused").write_text(f"{type(error).__name__}: {error}")
            raise

    def transaction(self, batch: BatchId, sink_id: str | None) -> FaultyTransaction:
        transaction = FaultyTransaction(self.settings, batch, sink_id, self.checkpoint(batch))
        transaction.fault = self.fault
        return transaction


class FaultyEos(KafkaEos):
    @classmethod
    def name(cls) -> str:
        return "kafka-eos-faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyWriter:
        settings = SinkSettings.of(self.options, streaming=True)
        sharing = None if "faultAlone" in self.options else self.sharing
        return FaultyWriter(settings, self.files, self.notes, sharing, Fault.of(self.options))


class LoneEos(KafkaEos):
    """As it is where nobody has called `register` with it: its tasks know of no driver."""

    @classmethod
    def name(cls) -> str:
        return "kafka-eos-alone"
