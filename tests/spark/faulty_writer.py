"""Mode An with one fault at one step of one batch, once; and queries of it, here or in a driver that may be killed.

Steps, in order: opened (driver), taken (a turn), answered (what was written in it; the turn is not given back yet),
returned (all turns; the task may have more to write), written (task), acknowledged, marked, ended (driver).
Actions: `raise`; `hang` stays where it is; `worker` kills the process it is in; `executor` the JVM above it; `pid`
kills `pid`; `takeover` does what a second driver does to the first, before `marked`; `zombie` leaves the lease behind
and raises; `yield` goes on when another attempt of the task was refused, `die` kills its process then.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pyarrow as pa

from protocol.records.record import NewRecord, build_batch
from spark_connector.checkpoint_files import Checkpoint
from spark_connector.errors import TurnRefused
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, Opened
from spark_connector.sink.foreach_batch import EosWriter
from spark_connector.sink.many_writers import WriteTask
from spark_connector.sink.settings import SinkSettings
from spark_connector.sink.turn_sender import TurnSender
from spark_connector.sink.turn_server import TurnsOfTask
from tallystick.client.errors import Fenced, TransactionGone
from tallystick.client.lease import Lease, take_lease
from tallystick.client.sender import Sender
from tests.harness.stepping_sender import SteppingSender
from tests.spark.eos_queries import BATCH
from tests.spark.queries import SECONDS, finished, options, stream
from tests.spark.session import ROOT, new_session, worker_environment

TASK_STEPS = ("taken", "answered", "returned", "written")
DRIVER_STEPS = ("opened", "acknowledged", "marked", "ended")


@dataclass(frozen=True)
class Fault:
    action: str
    step: str
    flag: str
    pid: int = 0
    batch: int = 1

    def reach(self, step: str, batch: int, lease: Lease | None = None) -> None:
        flag = Path(self.flag)
        if step != self.step or batch != self.batch or flag.exists():
            return
        flag.write_text(step)
        if self.action == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "executor":
            next(above for above in psutil.Process().parents() if above.name() == "java").kill()
            signal.pause()
        elif self.action == "pid":
            os.kill(self.pid, signal.SIGKILL)
        elif self.action == "hang":
            signal.pause()
        elif self.action == "takeover":
            return
        elif self.action in ("yield", "die"):
            while not flag.with_suffix(".refused").exists():
                time.sleep(0.02)
            if self.action == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            return
        elif self.action == "zombie":
            flag.with_suffix(".lease").write_bytes(pickle.dumps(lease))
        raise RuntimeError(f"a fault at {step}")


class FaultySender(SteppingSender):
    """One step more: all turns are given back."""

    async def _send_all(self) -> None:
        await super()._send_all()
        self.reach("returned")


@dataclass(frozen=True)
class FaultyTask(WriteTask):
    senders: ClassVar[type[TurnSender]] = FaultySender
    fault: Fault | None = None

    def sender(self, transaction: BatchTransaction, turns: TurnsOfTask) -> TurnSender:
        made = super().sender(transaction, turns)
        assert isinstance(made, FaultySender) and self.fault is not None
        fault, batch, lease = self.fault, self.batch.number, self.lease
        made.reach = lambda step: fault.reach(step, batch, lease)
        return made

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert self.fault is not None
        try:
            results = list(super().__call__(rows))
        except TurnRefused:
            Path(self.fault.flag).with_suffix(".refused").touch()
            raise
        if any(batch.column("records")[0].as_py() for batch in results):
            self.fault.reach("written", self.batch.number, self.lease)
        yield from results


class FaultyTransaction(BatchTransaction):
    """The driver's steps."""

    fault: Fault

    def open(self) -> Opened:
        opened = super().open()
        self.fault.reach("opened", self.batch.number)
        return opened

    def mark(self, lease: Lease, counts: Counts) -> None:
        self.fault.reach("acknowledged", self.batch.number)
        if self.fault.action == "takeover" and self.batch.number == self.fault.batch:
            taking = take_lease(self.connection.client, self.sink_id, timeout_ms=60_000, patience_s=30)
            self.connection.run(taking, "taking over")
        self._wake_the_zombie()
        super().mark(lease, counts)
        self.fault.reach("marked", self.batch.number)

    def end(self, lease: Lease) -> None:
        super().end(lease)
        self.fault.reach("ended", self.batch.number)

    def _wake_the_zombie(self) -> None:
        """What a task that was given up sends, once its successors have written: the same bytes, from another place."""
        left = Path(self.fault.flag).with_suffix(".lease")
        if not left.exists():
            return
        old: Lease = pickle.loads(left.read_bytes())
        assert self.settings.topic is not None
        client = self.connection.client
        for partition in range(self.partitions_of(self.settings.topic)):
            batch = bytearray(build_batch([NewRecord(value=b"zombie")], transactional=True))
            try:
                self.connection._loop.run(_send(client, old, (self.settings.topic, partition), batch))
                left.with_suffix(".written").write_text(str(partition))
            except (Fenced, TransactionGone) as error:
                left.with_suffix(".fenced").write_text(str(error))


async def _send(client: Any, lease: Lease, where: tuple[str, int], batch: bytearray) -> None:
    sender = Sender(client, lease, patience_s=30)
    await sender.offer([(where, batch)])
    await sender.flush()


class FaultyWriter(EosWriter):
    fault: Fault

    def transaction(self, batch: BatchId, checkpoint: Checkpoint) -> FaultyTransaction:
        made = FaultyTransaction(self.settings, batch, None, checkpoint)
        made.fault = self.fault
        return made

    def write_task(self, *given: Any) -> WriteTask:
        task = super().write_task(*given)
        return FaultyTask(**{part.name: getattr(task, part.name) for part in fields(task)}, fault=self.fault)


def writer(bootstrap: str, name: str, checkpoint: str, fault: Fault | None = None, **more: Any) -> EosWriter:
    """The function for `foreachBatch`, with its fault if it has one."""
    tasks = more.pop("tasks", None)
    given = options(bootstrap, {"topic": f"{name}-out", "checkpointLocation": checkpoint, **more})
    settings = SinkSettings.of(given, streaming=True)
    if fault is None:
        return EosWriter(settings, tasks, 3)
    made = FaultyWriter(settings, tasks, 3)
    made.fault = fault
    return made


def many_query(
    spark: Any, bootstrap: str, name: str, function: Any, checkpoint: str, *select: str, shuffled: int = 0
) -> Any:
    """From `<name>-in` through a function, `availableNow`; on request with so many tasks behind a shuffle. Started."""
    frame = stream(spark, bootstrap, subscribe=f"{name}-in", maxOffsetsPerTrigger=BATCH)
    frame = frame.repartition(shuffled, "value") if shuffled else frame
    to = frame.selectExpr(*(select or ("key", "value"))).writeStream.foreachBatch(function)
    return to.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def run_many(
    spark: Any, bootstrap: str, name: str, checkpoint: str, *select: str, fault: Fault | None = None, **more: Any
) -> Any:
    shuffled = more.pop("shuffled", 0)
    function = writer(bootstrap, name, checkpoint, fault, **more)
    query = many_query(spark, bootstrap, name, function, checkpoint, *select, shuffled=shuffled)
    finished(query)
    return query


def run_driver(
    bootstrap: str, name: str, checkpoint: str, who: str, step: str, flag: str, master: str = "local[2]"
) -> int:
    """The same in a driver of its own; its exit status. `who`: `jvm` or `driver` to kill at the step, or an action."""
    arguments = json.dumps([bootstrap, name, checkpoint, who, step, flag, master])
    command = [sys.executable, "-m", "tests.spark.faulty_writer", arguments]
    environment = worker_environment() | {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=3 * SECONDS, check=False)
    return done.returncode


def main(bootstrap: str, name: str, checkpoint: str, who: str, step: str, flag: str, master: str) -> None:
    """The driver."""
    with tempfile.TemporaryDirectory() as folder:
        spark = new_session(Path(folder), master)
        whom = {"jvm": spark.sparkContext._gateway.proc.pid, "driver": os.getpid()}
        fault = Fault("pid", step, flag, whom[who]) if who in whom else Fault(who, step, flag)
        run_many(spark, bootstrap, name, checkpoint, fault=fault)
        spark.stop()


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
