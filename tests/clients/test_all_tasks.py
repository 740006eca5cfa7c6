"""All tasks of `kafka-eos` in turns against a broker, with an emulated Spark: whatever is lost, each row is there once.

What a seed does is chance: tasks, cores, partitions, rows; tasks that die with a turn, after its acknowledgement, with
all rows written, before they have told the lease; results that are lost; copies; a commit that fails before or after it
took effect. A job that fails must leave nothing visible that is not all of it, and is run again until it is done.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from spark_connector.checkpoint_files import LocalFiles
from spark_connector.sink import batch_server
from spark_connector.sink.batch_server import BatchServer, Sharing
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, Opened
from spark_connector.sink.kafka_eos import EosBatchWriter, EosStreamWriter, Written
from spark_connector.sink.settings import SinkSettings
from spark_connector.sink.shared_batch import SharedBatch
from tallystick.client.client import Client
from tallystick.client.lease import Lease
from tallystick.client.sender import Sender
from tests.clients.emulated_spark import Context, JobFailed, Scheduler, rows_of_tasks
from tests.clients.test_lease import run, settled
from tests.harness.stepping_sender import stepping

SEEDS = range(30)
MOST_RUNS = 30
STEPS = ("opened", "taken", "answered", "written", "marked", "ended")


class Lost(Exception):
    """A task or a commit worker is no more."""


class Faults:
    """A few of them, at steps that chance chooses."""

    def __init__(self, chance: Random) -> None:
        self._left = [(chance.choice(STEPS), chance.randint(0, 3)) for _ in range(chance.randint(0, 3))]
        self._lock = threading.Lock()
        self.struck: list[str] = []

    def reach(self, step: str) -> None:
        with self._lock:
            for number, (at, more) in enumerate(self._left):
                if at == step:
                    if more:
                        self._left[number] = (at, more - 1)
                        return
                    del self._left[number]
                    self.struck.append(step)
                    raise Lost(step)


class FaultyTransaction(BatchTransaction):
    faults: Faults

    def open(self) -> Opened:
        opened = super().open()
        self.faults.reach("opened")
        return opened

    def _sender(self, lease: Lease) -> Sender:
        return stepping(super()._sender(lease), self.faults.reach)

    def write(self, lease: Lease, rows: Iterable[Any]) -> Counts:
        counts = super().write(lease, rows)
        self.faults.reach("written")
        return counts

    def mark(self, lease: Lease, counts: Counts) -> None:
        super().mark(lease, counts)
        self.faults.reach("marked")

    def end(self, lease: Lease) -> None:
        super().end(lease)
        self.faults.reach("ended")


class FaultyWriter(EosBatchWriter):
    def __init__(self, settings: SinkSettings, sharing: Sharing, faults: Faults) -> None:
        super().__init__(settings, sharing)
        self.faults = faults

    def transaction(self, batch: BatchId, sink_id: str | None) -> BatchTransaction:
        made = FaultyTransaction(self.settings, batch, sink_id)
        made.faults = self.faults
        return made


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    """The driver, with little grace for results that are late."""
    monkeypatch.setattr("spark_connector.sink.kafka_eos.TaskContext", Context)
    monkeypatch.setattr(batch_server, "SharedBatch", lambda patience_s: SharedBatch(patience_s, grace_s=0.05))
    made = BatchServer("127.0.0.1", "127.0.0.1")
    yield made
    made.close()


def arrow(numbers: Iterable[int], chance: Random) -> Iterator[Any]:
    """Rows of a task in batches of some; keys for all partitions."""
    values = [b"%04d" % number for number in numbers]
    while values:
        count = chance.randint(1, 20)
        part, values = values[:count], values[count:]
        yield pa.record_batch({"key": pa.array(part, pa.binary()), "value": pa.array(part, pa.binary())})


def settings_of(bootstrap: str, name: str) -> SinkSettings:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": name, "jobId": name, "kafka.batch.size": "300"}
    return SinkSettings.of(given, streaming=False)


def visible(bootstrap: str, name: str, partitions: int) -> list[bytes]:
    found: list[bytes] = []

    async def story(client: Client) -> None:
        found.extend(value or b"" for values in await settled(client, name, partitions) for value in values)

    run(bootstrap, story)
    return sorted(found)


def made(bootstrap: str, name: str, partitions: int) -> None:
    async def story(client: Client) -> None:
        await client.create_topic(name, partitions)

    run(bootstrap, story)


def job(settings: SinkSettings, server: BatchServer, chance: Random, rows: list[Any], faults: Faults) -> Scheduler:
    """One run. Raises `JobFailed`."""
    spark = Scheduler(len(rows), chance.randint(1, 4), chance, chance.randint(0, 1), chance.randint(0, 2))
    writer = FaultyWriter(settings, server.sharing, faults)

    def write(task: int) -> Written:
        return writer.write(arrow(rows[task], Random(task)))

    spark.run(writer, write)
    return spark


@pytest.mark.parametrize("seed", SEEDS)
def test_each_row_is_there_once(bootstrap: str, name: str, server: BatchServer, seed: int) -> None:
    chance = Random(seed)
    partitions, count = chance.randint(1, 5), chance.randint(0, 200)
    rows = rows_of_tasks(chance, chance.randint(1, 6), count)
    wanted = [b"%04d" % number for number in range(count)]
    settings = settings_of(bootstrap, name)
    made(bootstrap, name, partitions)
    for _ in range(MOST_RUNS):
        faults = Faults(chance)
        try:
            job(settings, server, chance, rows, faults)
            break
        except JobFailed:
            assert visible(bootstrap, name, partitions) in ([], wanted), faults.struck
    else:
        raise AssertionError("the job is never done")
    assert visible(bootstrap, name, partitions) == wanted


def lost_at(step: str) -> Faults:
    faults = Faults(Random(0))
    faults._left = [(step, 0)]
    return faults


def without_chance(tasks: int, cores: int) -> Scheduler:
    return Scheduler(tasks, cores, Random(0), losses=0, copies=0)


@pytest.mark.parametrize("step", ["opened", "taken", "answered", "written"])
def test_a_task_that_is_lost_when_no_other_is_done_does_not_end_the_job(
    bootstrap: str, name: str, server: BatchServer, step: str
) -> None:
    """One core: the first task is lost before the others begin."""
    made(bootstrap, name, 3)
    faults, spark = lost_at(step), without_chance(3, 1)
    writer = FaultyWriter(settings_of(bootstrap, name), server.sharing, faults)
    spark.run(writer, lambda task: writer.write(arrow(range(task * 50, task * 50 + 50), Random(task))))
    assert faults.struck == [step]
    assert visible(bootstrap, name, 3) == [b"%04d" % number for number in range(150)]


@pytest.mark.parametrize("step", ["taken", "answered", "written"])
def test_a_task_that_is_lost_when_another_is_done_ends_the_job_and_says_so(
    bootstrap: str, name: str, server: BatchServer, step: str
) -> None:
    """One core, and the second task is lost. Nothing is visible, and nothing open; the job is run again."""
    made(bootstrap, name, 3)
    settings, faults = settings_of(bootstrap, name), lost_at("never")

    def write(writer: FaultyWriter) -> Callable[[int], Written]:
        def written(task: int) -> Written:
            if task == 1 and not faults.struck:
                faults._left = [(step, 0)]
            return writer.write(arrow(range(task * 50, task * 50 + 50), Random(task)))

        return written

    writer = FaultyWriter(settings, server.sharing, faults)
    with pytest.raises(JobFailed, match=r"1 other task was done.*nothing is lost, and nothing doubled"):
        without_chance(3, 1).run(writer, write(writer))
    assert faults.struck == [step]
    assert visible(bootstrap, name, 3) == []
    writer = FaultyWriter(settings, server.sharing, faults)
    without_chance(3, 1).run(writer, write(writer))
    assert visible(bootstrap, name, 3) == [b"%04d" % number for number in range(150)]


def test_one_task_whose_result_is_lost_is_tried_again(bootstrap: str, name: str, server: BatchServer) -> None:
    made(bootstrap, name, 3)
    writer = FaultyWriter(settings_of(bootstrap, name), server.sharing, lost_at("never"))
    spark = Scheduler(1, 1, Random(1), losses=1, copies=0)
    spark.chance.random = lambda: 0.0  # type: ignore[method-assign]
    spark.run(writer, lambda task: writer.write(arrow(range(50), Random(task))))
    assert spark.losses == 0
    assert visible(bootstrap, name, 3) == [b"%04d" % number for number in range(50)]


class OfAStream:
    """A commit worker of a stream whose commit fails, and what it gives up then."""

    def __init__(self, bootstrap: str, name: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, "topic": name, "checkpointLocation": f"/nowhere/{name}"}
        self._writer = EosStreamWriter(SinkSettings.of(given, streaming=True), LocalFiles())

    def commit(self, messages: Any) -> None:
        raise Lost("the commit worker")

    def abort(self, messages: Any) -> None:
        self._writer.abort(messages, 7)


def test_what_a_stream_gives_up_is_ended_at_once(bootstrap: str, name: str, server: BatchServer) -> None:
    """Its checkpoint, which may be wrong, is not looked at. What stays open would hold readers until its timeout."""
    made(bootstrap, name, 3)
    given = {"kafka.bootstrap.servers": bootstrap, "topic": name, "kafka.transaction.timeout.ms": "900000"}
    settings = SinkSettings.of(given, streaming=False)
    writer = FaultyWriter(settings, server.sharing, lost_at("never"))
    with pytest.raises(JobFailed, match="the commit worker"):
        without_chance(2, 1).run(OfAStream(bootstrap, name), lambda task: writer.write(arrow([task], Random(task))))
    assert visible(bootstrap, name, 3) == []
