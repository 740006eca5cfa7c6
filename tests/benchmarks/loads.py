"""The loads, all from confluent-kafka. Each returns figures by name; none knows which broker it runs against."""

import itertools
import statistics
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
QUIET: dict[str, int | str] = {"log_level": 3}
Figures = dict[str, float]


@contextmanager
def reached_with(settings: Mapping[str, str]) -> Iterator[None]:
    """Every client of the block has these settings, too."""
    before = dict(QUIET)
    QUIET.update(settings)
    try:
        yield
    finally:
        QUIET.clear()
        QUIET.update(before)


def fresh(bootstrap: str, partitions: int = PARTITIONS) -> str:
    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    return name


def drop(bootstrap: str, topic: str) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(60)


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latencies(milliseconds: list[float]) -> Figures:
    return {"p50 ms": statistics.median(milliseconds), "p99 ms": _percentile(milliseconds, 0.99)}


def produce(bootstrap: str, size: int, count: int) -> tuple[str, Figures]:
    """Idempotent, acks=all, as fast as it goes. Returns the topic, for `consume`.

    A record of each partition goes before the clock starts: librdkafka asks for its producer id once it is connected,
    and where that was not yet so, half a second later. That is a third of a round, or nothing, on any broker.
    """
    topic = fresh(bootstrap)
    sender = Producer(
        {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "delivery.report.only.error": True,
        }
    )
    value = bytes(range(256)) * (size // 256) + bytes(size % 256)
    for partition in range(PARTITIONS):
        sender.produce(topic, value, partition=partition)
    assert sender.flush(60) == 0
    timed = count - PARTITIONS
    group = max(1, min(1000, 200_000 // size))
    messages = [{"value": value} for _ in range(group)]
    began = time.perf_counter()
    for number in range(0, timed, group):
        left = messages[: min(group, timed - number)]
        while left:
            left = left[sender.produce_batch(topic, left, number // group % PARTITIONS) :]
            if left:
                for message in left:
                    message.pop("_error", None)
                sender.poll(0.002)
    assert sender.flush(300) == 0
    seconds = time.perf_counter() - began
    assert _records_in(bootstrap, topic) == count, "every record has arrived, once"
    return topic, {"MB/s": timed * size / 1e6 / seconds, "k records/s": timed / 1e3 / seconds}


def _records_in(bootstrap: str, topic: str) -> int:
    reader = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "bench"})
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = sum(reader.get_watermark_offsets(partition, 30)[1] for partition in partitions)
    reader.close()
    return found


def consume(bootstrap: str, topic: str, size: int, count: int, times: int) -> Figures:
    """Read a topic from its beginning to its end, several times over. It is the broker that is to be measured: a client
    whose queue is full looks again at once and not, as by default, a second later, and a fetch at the end of the topic,
    behind which the first one of the next time stands, waits for 10 ms and not for half a second."""
    unhindered = {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 1 << 20, "fetch.queue.backoff.ms": 1}
    unhindered["fetch.wait.max.ms"] = 10
    settings = {"group.id": "bench", "enable.auto.commit": False, **unhindered}
    reader = Consumer({**QUIET, "bootstrap.servers": bootstrap, **settings})
    began = time.perf_counter()
    for _ in range(times):
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        seen = 0
        while seen < count:
            seen += len(reader.consume(min(10_000, count - seen), 1.0))
        reader.unassign()
    seconds = time.perf_counter() - began
    reader.close()
    return {"MB/s": times * count * size / 1e6 / seconds, "k records/s": times * count / 1e3 / seconds}


def awaited(bootstrap: str, count: int) -> Figures:
    """One idempotent record at a time, each awaited."""
    topic = fresh(bootstrap, 1)
    sender = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    taken = []
    for number in range(count + 100):
        began = time.perf_counter()
        sender.produce(topic, b"x" * 100, partition=0)
        sender.flush(30)
        if number >= 100:
            taken.append(1000 * (time.perf_counter() - began))
    drop(bootstrap, topic)
    return latencies(taken)


def end_to_end(bootstrap: str, count: int) -> Figures:
    """From produce to the consumer's hands, one record at a time."""
    topic = fresh(bootstrap, 1)
    sender = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    reader = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, 0, 0)])
    taken = []
    for number in range(count + 50):
        began = time.perf_counter()
        sender.produce(topic, b"%d" % number, partition=0)
        sender.poll(0)
        message = reader.poll(30)
        assert message is not None and message.error() is None
        if number >= 50:
            taken.append(1000 * (time.perf_counter() - began))
    sender.flush(30)
    reader.close()
    drop(bootstrap, topic)
    return latencies(taken)


def transactions(bootstrap: str, producers: int, seconds: float) -> Figures:
    """Ten records over four partitions per transaction, by so many producers at once."""
    topic = fresh(bootstrap)
    ready = threading.Barrier(producers + 1)
    taken: list[list[float]] = [[] for _ in range(producers)]
    until = [0.0]

    def work(slot: int) -> None:
        name = f"{topic}-{slot}"
        sender = Producer({**QUIET, "bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
        sender.init_transactions(60)
        for number in itertools.count():
            if number == 5:
                ready.wait()
                ready.wait()
            if number >= 5 and time.perf_counter() >= until[0]:
                return
            began = time.perf_counter()
            sender.begin_transaction()
            for record in range(10):
                sender.produce(topic, b"x" * 100, partition=record % PARTITIONS)
            sender.commit_transaction(60)
            if number >= 5:
                taken[slot].append(1000 * (time.perf_counter() - began))

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(producers)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    until[0] = began + seconds
    ready.wait()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    drop(bootstrap, topic)
    every = [latency for part in taken for latency in part]
    return {"transactions/s": len(every) / elapsed, **latencies(every), "transactions": float(len(every))}


def group_join(bootstrap: str) -> Figures:
    """From subscribe to the first record, in a group that is new."""
    topic = fresh(bootstrap)
    sender = Producer({**QUIET, "bootstrap.servers": bootstrap})
    sender.produce(topic, b"x")
    sender.flush(30)
    settings = {**QUIET, "bootstrap.servers": bootstrap, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    reader = Consumer(settings)
    began = time.perf_counter()
    reader.subscribe([topic])
    while (message := reader.poll(1.0)) is None or message.error() is not None:
        assert time.perf_counter() - began < 60
    elapsed = 1000 * (time.perf_counter() - began)
    reader.close()
    drop(bootstrap, topic)
    return {"ms": elapsed}
