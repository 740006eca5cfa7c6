"""The brokers that are measured, each a process with a temporary folder: us in both modes, Apache Kafka with and
without flush, and kfake.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tallystick.process import BrokerProcess
from tests.harness.apache_kafka import ApacheKafka, answers_api_versions
from tests.harness.kfake import Kfake
from tests.harness.proxy import free_port

DURABLE, PAGE_CACHE, KAFKA, KAFKA_FLUSH, KFAKE = "durable", "page-cache", "kafka", "kafka-flush", "kfake"

TITLES = {
    DURABLE: "Tallystick, durable",
    PAGE_CACHE: "Tallystick, page cache",
    KAFKA: "Kafka 4.3.1",
    KAFKA_FLUSH: "Kafka, flush each message",
    KFAKE: "kfake, in files",
}

RIVALS = {DURABLE: KAFKA_FLUSH, PAGE_CACHE: KAFKA}
"""The targets that promise the same as we do in each mode."""
COMPARED = {
    "page cache : Kafka": (PAGE_CACHE, KAFKA),
    "durable : flush": (DURABLE, KAFKA_FLUSH),
    "page cache : kfake": (PAGE_CACHE, KFAKE),
}
"""The columns of ratios."""
COMPACTING = (DURABLE, PAGE_CACHE, KAFKA, KAFKA_FLUSH)
"""Those that compact logs by themselves, and take settings for that."""

Maker = Callable[[Path, Mapping[str, str]], BrokerProcess]
"""From a folder, and settings of the broker beyond its own."""

DELETE_SOON = {"log.segment.delete.delay.ms": "1000"}
"""What a round has written goes soon: the disk of a long run stays bounded."""


def _ours(durability: str) -> Maker:
    def started(folder: Path, more: Mapping[str, str]) -> BrokerProcess:
        settings = [part for pair in (DELETE_SOON | dict(more)).items() for part in ("--set", "=".join(pair))]
        return BrokerProcess(folder, options=["--durability", durability, *settings], port=free_port())

    return started


def _kafka(**settings: str) -> Maker:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return lambda folder, more: ApacheKafka(folder, settings=named | DELETE_SOON | dict(more))


MAKERS: dict[str, Maker] = {
    DURABLE: _ours("fsync"),
    PAGE_CACHE: _ours("page-cache"),
    KAFKA: _kafka(),
    KAFKA_FLUSH: _kafka(log_flush_interval_messages="1"),
    KFAKE: lambda folder, more: Kfake(folder),
}


@dataclass(slots=True)
class Target:
    """One broker under measurement."""

    name: str
    process: BrokerProcess

    @property
    def bootstrap(self) -> str:
        return self.process.bootstrap

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mb(self) -> float:
        return float(psutil.Process(self.process.pid).memory_info().rss) / 1e6

    def close(self) -> None:
        self.process.close()
        shutil.rmtree(self.process.folder, ignore_errors=True)


def make(name: str, folder: Path, settings: Mapping[str, str] | None = None) -> Target:
    return Target(name, MAKERS[name](folder / name, settings or {}))


def timed_start(target: Target) -> float:
    """Milliseconds from starting the process to its first answer to ApiVersions."""
    process = target.process
    command = process._command(process.folder / "ready")
    began = time.perf_counter()
    with process.log.open("ab") as log:
        process._process = psutil.Popen(command, cwd=Path(__file__).parents[2], stdout=log, stderr=log)
    while not answers_api_versions(process.port):
        assert process.running, process.log_end()
        time.sleep(0.001)
    elapsed = 1000 * (time.perf_counter() - began)
    process.bootstrap = f"127.0.0.1:{process.port}"
    return elapsed
