"""What a compaction of much costs those who produce meanwhile: awaited records beside it, and without it."""

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.benchmarks.footprint import Note
from tests.benchmarks.loads import QUIET, drop, latencies
from tests.benchmarks.rows import compaction_title
from tests.benchmarks.targets import Target, make

RECORD_BYTES, KEYS = 1000, 100_000
SEGMENT_BYTES = 64 << 20
OFTEN = {"log.cleaner.backoff.ms": "1000", "log.cleaner.dedupe.buffer.size": str(256 << 20)}
AWAITED_SECONDS = 10.0
COMPACTED, GROWS, ASIDE = "bench-compacted", {"cleanup.policy": "delete", "retention.ms": "-1"}, "bench-beside"


def compactions(targets: list[str], gigabytes: float, rounds: int, folder: Path, note: Note) -> None:
    """A fresh broker for each round: what one has compacted is not to be done again."""
    for number in range(rounds):
        for name in targets:
            target = make(name, folder / f"compaction-{number}", OFTEN)
            target.process.start()
            try:
                note(compaction_title(gigabytes), name, _measured(target, gigabytes))
            finally:
                target.close()


def _measured(target: Target, gigabytes: float) -> dict[str, float]:
    admin = AdminClient({**QUIET, "bootstrap.servers": target.bootstrap})
    often = {"min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(SEGMENT_BYTES)}
    made = admin.create_topics([NewTopic(COMPACTED, 1, 1, config=GROWS | often), NewTopic(ASIDE, 1, 1)])
    for topic in made.values():
        topic.result(30)
    _fill(target.bootstrap, int(gigabytes * 1e9) // RECORD_BYTES)
    os.sync()
    (folder,) = target.process.folder.rglob(f"{COMPACTED}-0")
    full = _log_bytes(folder)
    until = time.perf_counter() + AWAITED_SECONDS
    without = _awaited(target.bootstrap, lambda: time.perf_counter() >= until)
    wanted = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, COMPACTED, incremental_configs=[wanted])
    admin.incremental_alter_configs([resource])[resource].result(30)
    began = time.perf_counter()
    meanwhile = _awaited(target.bootstrap, lambda: _log_bytes(folder) < _left_over(full))
    seconds = time.perf_counter() - began
    for topic in (COMPACTED, ASIDE):
        drop(target.bootstrap, topic)
    before, during = latencies(without)["p99 ms"], latencies(meanwhile)["p99 ms"]
    return {"p99 ms without": before, "p99 ms": during, "ms more": during - before, "seconds of compaction": seconds}


def _left_over(full: int) -> int:
    """The last value of each key, and the segments that the pass may not touch: below this it is done."""
    return KEYS * RECORD_BYTES + 2 * SEGMENT_BYTES + full // 10


def _log_bytes(folder: Path) -> int:
    """Of the segments that are in use; a file may go between the listing and the look."""
    sizes = 0
    for entry in os.scandir(folder):
        if entry.name.endswith(".log"):
            try:
                sizes += entry.stat().st_size
            except FileNotFoundError:
                continue
    return sizes


def _fill(bootstrap: str, count: int) -> None:
    """Each key again and again, in the same order."""
    sender = Producer(
        {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "delivery.report.only.error": True,
        }
    )
    value = os.urandom(RECORD_BYTES - 20)
    for number in range(count):
        while True:
            try:
                sender.produce(COMPACTED, value, b"%010d" % (number % KEYS), partition=0)
                break
            except BufferError:
                sender.poll(0.01)
    assert sender.flush(300) == 0


def _awaited(bootstrap: str, done: Callable[[], bool]) -> list[float]:
    """Milliseconds of each record, one at a time, until it is done; that is asked after every twenty."""
    sender = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    sender.list_topics(ASIDE, 30)
    taken: list[float] = []
    for number in itertools.count():
        if number % 20 == 0 and number > 1000 and done():
            return taken
        began = time.perf_counter()
        sender.produce(ASIDE, b"x" * 100, partition=0)
        sender.flush(30)
        if number >= 100:
            taken.append(1000 * (time.perf_counter() - began))
    raise AssertionError("unreachable")
