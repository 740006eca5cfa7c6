"""A round: a broker on a file system of its own, clients at work, power cuts, and what is found at the end.

In fsync mode everything acknowledged is there. With the page cache a power cut may take the end of each log: the round
has one cut, everybody goes with it, and each log is the beginning of what was written, whole and in order.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tallystick.client.errors import KafkaError
from tallystick.process import BrokerFailed
from tests.chaos.power_cuts.cut_disk import CutDisk
from tests.chaos.power_cuts.cuts import PowerCuts
from tests.chaos.power_cuts.keeper import Keeper
from tests.chaos.power_cuts.without_syncs import WithoutSyncs
from tests.chaos.recording import Loaded
from tests.chaos.run import SETTINGS, Chaos, Report, Trouble
from tests.histories.checker import Verdict
from tests.simulation.history import History

BUSY = SETTINGS | {
    "auto.create.topics.enable": "false",  # who refreshes its metadata would make a deleted topic anew
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "metadata.log.max.snapshot.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "0",
}
TOPICS = {"transactional": {"segment.ms": "300"}, "plain": {"segment.ms": "300"}}
CREW = [
    {"kind": "transactional", "client": "librdkafka", "transactional_id": "one"},
    {"kind": "transactional", "client": "librdkafka", "transactional_id": "two"},
    {"kind": "idempotent", "client": "librdkafka"},
    {"kind": "reader", "client": "librdkafka"},
]
DURABILITIES = ("fsync", "page-cache")
TIMEOUT_MS = {"fsync": 30_000, "page-cache": 3_000}
"""After how long a transaction is given up. With the page cache nobody is left to end any."""


class Round(Chaos):
    """See the head of this file. A context: at its end nothing is mounted any more."""

    def __init__(self, folder: Path, *, durability: str, file_system: str, seed: int, syncs: bool = True) -> None:
        super().__init__(
            folder,
            durability=durability,
            seed=seed,
            settings=BUSY,
            topics=TOPICS,
            timeout_ms=TIMEOUT_MS[durability],
        )
        if not syncs:
            self.broker = WithoutSyncs(folder, options=self.broker.options, start_seconds=self.broker.start_seconds)
        self.disk = CutDisk(folder, file_system)
        self.broker.data = self.disk.root / "data"
        self.cuts = PowerCuts(self.broker, self.disk, seed)
        self.is_durable = durability == "fsync"
        self.keeper: Keeper | None = None

    def __enter__(self) -> "Round":
        self.disk.make()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.broker.close()
        self.disk.close()

    def pass_by(self, seconds: float) -> Report:
        """So much load, and some more until everything has come to its end."""
        report = self.run(seconds if self.is_durable else 0.0, CREW, self.cuts)
        report.faults["chores"] = self.keeper.done if self.keeper is not None else 0
        return report

    # -- what is different from other chaos ------------------------------------------------------------------------

    def begin(self) -> None:
        self.keeper = Keeper(self.broker.bootstrap, self.seed)
        self.keeper.start()

    def end(self, nemesis: Trouble) -> None:
        if self.is_durable:
            super().end(nemesis)
        else:
            for worker in self.workers.values():
                worker.kill()
            nemesis.heal()
        assert self.keeper is not None
        self.violations += self.keeper.stop()

    def judge(self, loaded: Loaded, operations: Verdict) -> list[str]:
        self.cuts.look_at_log()
        if not self.is_durable:
            return [*loaded.history.violations, *self.cuts.wrong, *broken_beginnings(loaded.history)]
        assert self.keeper is not None
        return [*super().judge(loaded, operations), *self.cuts.wrong, *self.keeper.broken_promises()]


def broken_beginnings(history: History) -> Iterator[str]:
    """Logs that are not the beginning of what was written; aborted records that are shown."""
    for place, final in history.final.items():
        there = dict(final.everything)
        numbers = list(there.values())
        end = max(there, default=-1)  # behind it there are markers, some of them of the time after the cut
        if len(numbers) != len(set(numbers)):
            yield f"{place}: records stand there more than once"
        for write in history.writes:
            at = write.offset if write.place == place and write.acked else None
            if at is not None and at <= end and there.get(at) != write.number:
                yield f"{place} ends at {end}, and record {write.number} at {at} is not there"
        for offset, number in final.committed:
            transaction = history.writes[number].transaction
            if transaction is not None and transaction.decision is not True:
                yield f"{place}: record {number} at {offset} is shown, its transaction was not committed"


def one_round(
    folder: Path, seed: int, *, durability: str, file_system: str, seconds: float, syncs: bool = True
) -> Report:
    """A round in a folder, which goes with it if all was well; otherwise the image stays. `syncs`: the control is to
    have none."""
    began = time.monotonic()
    with Round(folder, durability=durability, file_system=file_system, seed=seed, syncs=syncs) as made:
        try:
            report = made.pass_by(seconds)
        except (AssertionError, BrokerFailed, KafkaError) as wrong:
            made.cuts.look_at_log()
            report = Report(
                [repr(wrong), *made.cuts.wrong], Verdict(), time.monotonic() - began, made.cuts.done, made.cuts.struck()
            )
    if not report.violations:
        shutil.rmtree(folder)
    return report
