"""What it costs a broker to be watched: the processor time of one request where requests are counted and timed, beside
the same without, in one run.

    make bench-watched ARGS="--rounds 15"

Three brokers run: one by itself, one with an HTTP side, one that sends traces of its transactions to a collector.
Rounds go to each in turns, and each is measured by what its process computed, not by the clock; the least of all rounds
is told, which others on the machine have disturbed least. In the column `scraped`, the second is scraped four times a
second meanwhile; `OTEL_TRACES_SAMPLER` and its like are those of this process.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tests.benchmarks.watching import scraped
from tests.harness.confluent import make_topic
from tests.harness.framing import request_frame
from tests.harness.otlp_collector import Collector, collecting
from tests.server.wire import Wire

REQUESTS, IN_FLIGHT = 10_000, 100
ALONE = 3_000
TRANSACTIONS = 200
SCRAPE_S = 0.25
TOPIC = "watched"
Load = Callable[[Broker], int]
"""Returns how many requests or transactions it was."""


def cpu_s(pid: int) -> float:
    """What all threads of a process have computed."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _produce_frame() -> bytes:
    records = build_batch([NewRecord(key=None, value=b"x" * 100, timestamp_ms=0)])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])
    return request_frame(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]), 9, 1, "watched")


def pipelined(broker: Broker) -> int:
    """The cheapest requests there are: small, and many at once."""
    return _produced(broker, REQUESTS, IN_FLIGHT)


def one_by_one(broker: Broker) -> int:
    """Each waits for its answer."""
    return _produced(broker, ALONE, 1)


def _produced(broker: Broker, count: int, at_once: int) -> int:
    frames = _produce_frame() * at_once
    with Wire(broker) as wire:
        for _ in range(count // at_once):
            wire.send(frames)
            for _ in range(at_once):
                wire.frame()
    return count


def transactions(broker: Broker) -> int:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "watched", "linger.ms": 0})
    producer.init_transactions(60)
    for _ in range(TRANSACTIONS):
        producer.begin_transaction()
        producer.produce(TOPIC, b"x" * 100)
        producer.commit_transaction(60)
    return TRANSACTIONS


LOADS: dict[str, Load] = {
    "small Produce requests, 100 in flight": pipelined,
    "small Produce requests, one by one": one_by_one,
    "transactions of one record": transactions,
}


def _one(broker: Broker, load: Load) -> float:
    before = cpu_s(broker.pid)
    count = load(broker)
    return (cpu_s(broker.pid) - before) / count * 1e6


def _traced(broker: Broker, collector: Collector, load: Load) -> float:
    """With the traces of its transactions, all of them: they are made and sent after the last has ended."""
    collector.spans.clear()
    before = cpu_s(broker.pid)
    count = load(broker)
    if load is transactions and os.environ.get("OTEL_TRACES_SAMPLER", "always_on").endswith("always_on"):
        collector.wait_for_roots(count)
    return (cpu_s(broker.pid) - before) / count * 1e6


def measure(rounds: int, folder: Path) -> None:
    """Print a table."""
    with ExitStack() as stack:
        off, on = (
            stack.enter_context(Broker(folder=folder / name, durability="page-cache", http=name == "on"))
            for name in ("off", "on")
        )
        collector = stack.enter_context(collecting())
        settings = {"tallystick.traces.endpoint": collector.address}
        traced = stack.enter_context(Broker(folder=folder / "traced", durability="page-cache", config=settings))
        for broker in (off, on, traced):
            make_topic(broker.bootstrap, TOPIC)
        print(
            f"{'microseconds of the processor for each':42}{'off':>9}{'on':>9}{'on/off':>9}{'scraped':>9}{'traced':>9}"
        )
        for name, load in LOADS.items():
            found: list[tuple[float, float, float, float]] = []
            for number in range(-1, rounds):
                off_us, on_us = _one(off, load), _one(on, load)
                with scraped(on.http_url, SCRAPE_S):
                    scraped_us = _one(on, load)
                traced_us = _traced(traced, collector, load)
                if number >= 0:
                    found.append((off_us, on_us, scraped_us, traced_us))
            off_us, on_us, scraped_us, traced_us = (min(column) for column in zip(*found, strict=True))
            ratios = "".join(f"{one / off_us:9.3f}" for one in (on_us, scraped_us, traced_us))
            print(f"{name:42}{off_us:9.1f}{on_us:9.1f}{ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args().rounds, Path(folder))


if __name__ == "__main__":
    main()
