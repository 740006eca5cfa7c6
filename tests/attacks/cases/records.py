"""Attacks with record batches: bombs, lies, and what makes a log hard to search or to compact."""

import os
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.transactions import DescribeProducersRequest, TopicRequest
from tests.attacks import wire
from tests.attacks.lying_batches import (
    INT64_MAX,
    lies,
    many_empty_records,
    overflowing_times,
    zeros_compressed,
)
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.harness.framing import request_frame

COMPACT_SOON = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.roll.ms": "200",
}
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


@case(
    short={"size": 4 << 20, "batches": 3}, long={"size": 120 << 20, "batches": 10}, settings=COMPACT_SOON, peak_mb=250
)
def compression_bombs(trial: Trial, *, size: int, batches: int) -> None:
    """Batches of zeros that are small on the wire and large when they are opened, into a compacted topic."""
    link = trial.connect()
    wire.make_topic(link, "bombed", cleanup_policy="compact")
    wire.make_topic(link, "bombed-plain")
    for codec in (GZIP, LZ4, ZSTD):
        bomb = zeros_compressed(codec, size)
        for topic in ("bombed", "bombed-plain"):
            codes = {wire.produced(link.request(wire.produce(topic, bomb), 9))[0] for _ in range(batches)}
            trial.note(f"{topic}, codec {codec}: {', '.join(ErrorCode(code).name for code in codes)}")
            link.request(wire.list_offsets(topic, 1), 5)
    expect_compaction(trial)


@case(short={"records": 60_000}, long={"records": 1_200_000}, settings=COMPACT_SOON, peak_mb=150)
def smallest_records(trial: Trial, *, records: int) -> None:
    """An honest batch of as many records as fit, compressed; it is searched by time and compacted."""
    link = trial.connect()
    wire.make_topic(link, "crowded", cleanup_policy="delete")
    wire.make_topic(link, "crowded-keys", cleanup_policy="compact")
    batch = many_empty_records(ZSTD, records)
    trial.note(f"{len(batch)} bytes")
    for topic in ("crowded", "crowded-keys"):
        code, _ = wire.produced(link.request(wire.produce(topic, batch), 9))
        trial.note(f"{topic}: {ErrorCode(code).name}")
        for timestamp in (1, 1_700_000_000_001, -3):
            link.request(wire.list_offsets(topic, timestamp), 7)
    expect_compaction(trial)


@case(short={"rounds": 2}, long={"rounds": 200}, settings=COMPACT_SOON)
def lying_batches(trial: Trial, *, rounds: int) -> None:
    """Batches with a right checksum that lie about counts, times and codecs, into plain and compacted topics."""
    link = trial.connect()
    policies = {"lied-to": "delete", "lied-to-compacted": "compact"}
    for topic, policy in policies.items():
        wire.make_topic(link, topic, cleanup_policy=policy)
    codes: dict[str, ErrorCode] = {}
    for _ in range(rounds):
        for name, batch in lies().items():
            for topic in policies:
                codes[name] = ErrorCode(wire.produced(link.request(wire.produce(topic, batch), 9))[0])
    for name in ("claims 2^31-1 records", "claims one record more", "delta and count of 2^31-1"):
        trial.require(codes[name] == ErrorCode.INVALID_RECORD, f"a batch that {name}: {codes[name].name}")
    for topic in policies:
        for timestamp in (1, -3, -1):
            answered = link.request(wire.list_offsets(topic, timestamp), 7).topics[0].partitions[0]
            trial.require(answered.error_code == 0, f"ListOffsets of {topic}: {ErrorCode(answered.error_code).name}")
    files = _files(trial)
    trial.note(f"{files} files")
    trial.require(trial.kafka or files < 400 + 12 * rounds, f"{files} files after {rounds} rounds of lying batches")
    trial.note(", ".join(f"{name}: {code.name}" for name, code in codes.items()))
    expect_compaction(trial)


@case(short={"batches": 3}, long={"batches": 300}, settings=COMPACT_SOON)
def overflowing_timestamps(trial: Trial, *, batches: int) -> None:
    """Batches whose timestamps are beyond int64 in sum; compaction of everybody else's topics must go on."""
    link = trial.connect()
    any_time = {"message_timestamp_after_max_ms": str(INT64_MAX)}
    wire.make_topic(link, "beyond", cleanup_policy="compact", **any_time)
    codes = [
        ErrorCode(wire.produced(link.request(wire.produce("beyond", overflowing_times(b"%d" % number)), 9))[0]).name
        for number in range(batches)
    ]
    trial.note(f"answered {', '.join(sorted(set(codes)))}")
    link.request(wire.list_offsets("beyond", 1), 5)
    expect_compaction(trial)


@case(short={"megabytes": 4}, long={"megabytes": 500}, settings=COMPACT_SOON | {"log.segment.bytes": "4194304"})
def large_compaction(trial: Trial, *, megabytes: int) -> None:
    """A compacted topic of large compressed batches, all of them with the same few keys."""
    link = trial.connect()
    wire.make_topic(link, "heavy", cleanup_policy="compact", max_message_bytes="10000000")
    for number in range(megabytes // 2):
        values = [os.urandom(2_000) * 5 for _ in range(200)]
        batch = wire.batch_of(values, key=b"%d" % (number % 3), compression=ZSTD)
        code, _ = wire.produced(link.request(wire.produce("heavy", batch), 9))
        assert code == ErrorCode.NONE, ErrorCode(code)
    expect_compaction(trial)


@case(short={"producers": 600}, long={"producers": 1_000_000}, kept_mb=512)
def many_producers(trial: Trial, *, producers: int) -> None:
    """As many producers as one can make up, one batch each, in one partition."""
    link = trial.connect()
    wire.make_topic(link, "producers")
    first, _ = wire.initialised(link, None)
    requests = bytearray()
    for number in range(producers):
        batch = wire.batch_of([b"v"], producer_id=first + 10**6 + number, producer_epoch=0, base_sequence=0)
        requests += request_frame(wire.produce("producers", batch, acks=1), 9, 1)
        if number % 200 == 199:
            link.send(bytes(requests))
            requests.clear()
            for _ in range(200):
                link.frame()
    request = DescribeProducersRequest(topics=[TopicRequest(name="producers", partition_indexes=[0])])
    answered = link.request(request, 0).topics[0].partitions[0]
    trial.note(f"{len(answered.active_producers)} producers are described")


@case(
    short={"batches": 600},
    long={"batches": 300_000},
    peak_mb=60,
    settings={"tallystick.producer.ids.max": "100000", "producer.id.expiration.check.interval.ms": "1000"},
)
def refused_verifications(trial: Trial, *, batches: int) -> None:
    """Transactional batches of producers that do not exist, each refused, each to be verified before that."""
    link = trial.connect()
    wire.make_topic(link, "unverified")
    wire.wait_for_coordinator(link, "nobody", 1)
    requests = bytearray()
    for number in range(batches):
        batch = wire.batch_of([b"v"], producer_id=10**9 + number, producer_epoch=0, base_sequence=0, transactional=True)
        requests += request_frame(wire.produce("unverified", batch, transactional_id="nobody"), 9, 1)
        if number % 100 == 99:
            link.send(bytes(requests))
            requests.clear()
            for _ in range(100):
                link.frame()


def expect_compaction(trial: Trial) -> None:
    """An honest compacted topic is compacted meanwhile: of many values of one key few are left."""
    link = trial.connect()
    wire.make_topic(link, "honest-compacted", cleanup_policy="compact")
    for _ in range(30):
        code, _ = wire.produced(link.request(wire.produce("honest-compacted", wire.batch_of([b"v"], key=b"k")), 9))
        assert code == ErrorCode.NONE, ErrorCode(code)
    if trial.kafka:
        return  # Its cleaner takes its time, and is not what is judged here.

    def is_compacted() -> bool:
        wire.produced(link.request(wire.produce("honest-compacted", wire.batch_of([b"v"], key=b"k")), 9))
        answered = link.request(wire.fetch("honest-compacted", 0), 11).responses[0].partitions[0]
        return not answered.records or int.from_bytes(bytes(answered.records[:8]), "big") > 0

    trial.wait_until(is_compacted, "an honest topic is compacted beside the attacked one", seconds=30)


def _files(trial: Trial) -> int:
    return sum(len(files) for _, _, files in os.walk(Path(trial.broker.data)))
