"""`python -m tests.benchmarks.catching_up`: how fast a consumer reads what was written long ago out of a store, without
reading ahead and with it; and how long a producer waits meanwhile for its records, one after the other.

Over PostgreSQL; and with a bucket (versitygw), which is reached over a line, too, on which a read takes 20 ms longer.
All of it shares one machine: what stands beside each other can be compared.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from tallystick.process import BrokerProcess
from tests.shared_store.objects import s3_server
from tests.shared_store.objects.line import Fault, Line
from tests.shared_store.objects.s3_server import S3Server
from tests.shared_store.postgresql_server import PostgresqlServer, why_not

PATIENCE_S = 300.0
RECORD_BYTES = 10_000
AHEAD = (0, 16 << 20)
LITTLE, MUCH = 64 << 20, 4 << 30
"""Memory: less than there is to read, and more."""
LATENCY_S = 0.02
WRITING_S = 20.0
SELF = (sys.executable, "-m", "tests.benchmarks.catching_up")


# -- clients, each in a process of its own -------------------------------------------------------------------------


def write_far(bootstrap: str, partitions: int, megabytes: int) -> None:
    """Records that no compression makes smaller."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("far", partitions), NewTopic("near", 1)])["far"].result(PATIENCE_S)
    drawn = random.Random(1).randbytes(RECORD_BYTES + 4096)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 900_000})
    for number in range(megabytes * 1_000_000 // RECORD_BYTES):
        while True:
            try:
                producer.produce("far", drawn[number % 4096 :][:RECORD_BYTES], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(PATIENCE_S):
        raise SystemExit("records were not acknowledged")


def read_far(bootstrap: str, partitions: int, *, again: bool) -> None:
    """All of it; says how many MB/s that were. With `again` it goes on until it is ended."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "far", "enable.auto.commit": False})
    places = [TopicPartition("far", index) for index in range(partitions)]
    left = sum(_end_of(consumer, place) for place in places)
    while True:
        consumer.assign([TopicPartition("far", index, 0) for index in range(partitions)])
        began, count = time.perf_counter(), 0
        while count < left:
            for message in consumer.consume(500, 5.0):
                if (error := message.error()) is not None:
                    raise SystemExit(f"it cannot be read: {error}")
                count += 1
        print(json.dumps(count * RECORD_BYTES / 1e6 / (time.perf_counter() - began)), flush=True)
        if not again:
            return consumer.close()


def _end_of(consumer: Consumer, place: TopicPartition) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            end: int = consumer.get_watermark_offsets(place, PATIENCE_S)[1]
            return end
        except KafkaException:  # It is not open yet.
            if time.monotonic() > deadline:
                raise


def write_near(bootstrap: str) -> None:
    """One record after the other; says how long each was waited for, in ms."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    took: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < WRITING_S:
        sent = time.perf_counter()
        producer.produce("near", b"x" * 1000, partition=0)
        if producer.flush(PATIENCE_S):
            raise SystemExit("a record was not acknowledged")
        took.append((time.perf_counter() - sent) * 1000)
    print(json.dumps(took))


def _told(*arguments: str) -> Any:
    done = subprocess.run([*SELF, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


# -- what is measured ----------------------------------------------------------------------------------------------


class Scene:
    """A store with what was written long ago, and one node that is started over it again and again."""

    def __init__(self, folder: Path, server: PostgresqlServer, name: str, port: int | None, options: Any) -> None:
        self._folder, self._url, self._name, self._port = folder, server.url(name), name, port
        self._partitions = options.partitions
        with self._node(0) as bootstrap:
            write_far(bootstrap, options.partitions, options.megabytes)

    @contextmanager
    def _node(self, ahead_bytes: int, memory_bytes: int = LITTLE) -> Iterator[str]:
        settings = [
            f"tallystick.store.read.ahead.bytes={ahead_bytes}",
            f"tallystick.store.memory.bytes={memory_bytes}",
        ]
        if self._port is not None:
            settings.append(f"tallystick.store.objects=s3://{s3_server.BUCKET}/{self._name}")
        options = ["--store", self._url, *(part for one in settings for part in ("--set", one))]
        node = BrokerProcess(self._folder / self._name, options=options, start_seconds=PATIENCE_S)
        if self._port is not None:
            node.environment = s3_server.environment(self._port)
        try:
            yield node.start().bootstrap
        finally:
            node.close()

    def speed(self, ahead_bytes: int) -> float:
        """MB/s of a consumer that begins at the beginning."""
        with self._node(ahead_bytes) as bootstrap:
            found: float = _told("--read", bootstrap, "--partitions", str(self._partitions))
            return found

    def waits(self, ahead_bytes: int, readers: int, memory_bytes: int = LITTLE) -> tuple[list[float], float]:
        """How long a producer waits, in ms, while so many read again and again; and what they read, in MB/s."""
        with self._node(ahead_bytes, memory_bytes) as bootstrap, ExitStack() as stack:
            arguments = ("--read", bootstrap, "--partitions", str(self._partitions), "--again")
            reading = [
                stack.enter_context(subprocess.Popen([*SELF, *arguments], stdout=subprocess.PIPE, text=True))
                for _ in range(readers)
            ]
            for one in reading:
                stack.callback(one.kill)
            lines = [one.stdout for one in reading if one.stdout is not None]
            for first in lines:
                first.readline()  # It has read all once.
            took: list[float] = _told("--write", bootstrap)
            speeds: list[float] = [json.loads(line.readline()) for line in lines]
            return sorted(took), sum(speeds)


def _median(found: list[float]) -> float:
    return sorted(found)[len(found) // 2]


def _speeds(scenes: dict[str, Scene], rounds: int) -> Table:
    table = Table(title="catching up, MB/s, median (all rounds)")
    for column in ("store", "not ahead", "ahead", "ratio"):
        table.add_column(column)
    for name, scene in scenes.items():
        found: dict[int, list[float]] = {ahead: [] for ahead in AHEAD}
        for _ in range(rounds):
            for ahead in AHEAD:
                found[ahead].append(scene.speed(ahead))
        cells = [f"{_median(one):.0f} ({', '.join(f'{value:.0f}' for value in one)})" for one in found.values()]
        table.add_row(name, *cells, f"{_median(found[AHEAD[1]]) / _median(found[AHEAD[0]]):.2f}")
    return table


def _waits(scenes: dict[str, Scene], rounds: int) -> Table:
    table = Table(title="one record after the other, awaited, ms")
    for column in ("store", "beside it", "MB/s read", "p50", "p99", "most", "p99 of each round"):
        table.add_column(column)
    for name, scene in scenes.items():
        found: dict[tuple[str, int, int, int], list[tuple[list[float], float]]] = {
            ("nobody reads", AHEAD[1], 0, LITTLE): [],
            ("a reader, not ahead", AHEAD[0], 1, LITTLE): [],
            ("a reader, ahead", AHEAD[1], 1, LITTLE): [],
            ("a reader, all is in memory", AHEAD[1], 1, MUCH): [],
        }
        for _ in range(rounds):
            for (_, *how), measured in found.items():
                measured.append(scene.waits(*how))
        for (what, *_), measured in found.items():
            every = sorted(value for took, _ in measured for value in took)
            each = [f"{took[len(took) * 99 // 100]:.1f}" for took, _ in measured]
            figures = (every[len(every) // 2], every[len(every) * 99 // 100], every[-1])
            read = f"{_median([speed for _, speed in measured]):.0f}"
            table.add_row(name, what, read, *(f"{one:.1f}" for one in figures), ", ".join(each))
    return table


def _delayed(line: Line) -> Callable[[str, str], Fault | None]:
    def spoil(method: str, path: str) -> Fault | None:
        if method == "GET":
            time.sleep(LATENCY_S)
        return None

    return spoil


def _measured(server: PostgresqlServer, stack: ExitStack, options: argparse.Namespace) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    ports: dict[str, int | None] = {"postgresql": None}
    if (reason := s3_server.why_not("versitygw")) is not None:
        print(f"nothing is measured with a bucket: {reason}")
    else:
        bucket: S3Server = s3_server.started("versitygw")
        stack.callback(bucket.close)
        line = Line(bucket.port)
        stack.callback(line.close)
        line.spoil = _delayed(line)
        ports |= {"bucket": bucket.port, "bucket_20ms": line.port}
    console = Console(width=130)
    chosen = [name for name in options.stores if name in ports]
    scenes = {name: Scene(folder, server, name, ports[name], options) for name in chosen}
    if options.rounds:
        console.print(_speeds(scenes, options.rounds))
    if options.waits:
        console.print(_waits(scenes, options.waits))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=600, help="that were written long ago")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="of catching up; 0: not measured")
    parser.add_argument("--waits", type=int, default=3, help="rounds of a producer that waits; 0: not measured")
    parser.add_argument("--stores", nargs="+", default=["postgresql", "bucket", "bucket_20ms"])
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return read_far(options.read, options.partitions, again=options.again)
    if options.write:
        return write_near(options.write)
    if (reason := why_not()) is not None:
        raise SystemExit(f"not measured: {reason}")
    server = PostgresqlServer()
    with ExitStack() as stack:
        stack.callback(server.close)
        asyncio.run(server.start())
        _measured(server, stack, options)
    return None


if __name__ == "__main__":
    main()
