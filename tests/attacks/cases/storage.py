"""Attacks on what lies on the disk, by writing, deleting and compacting at the same moment."""

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.topics import DeleteTopicsRequest
from protocol.records.record import records_of
from tests.attacks import wire
from tests.attacks.cases.records import COMPACT_SOON, expect_compaction
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.harness.framing import request_frame


@case(short={"topics": 6}, long={"topics": 500}, settings=COMPACT_SOON | {"log.roll.ms": "50"})
def deleted_while_compacted(trial: Trial, *, topics: int) -> None:
    """Compacted topics with much to clean are deleted while they are being compacted."""
    link = trial.connect()
    batches = [wire.batch_of([b"v" * 1_000] * 50, key=b"%d" % (number % 3)) for number in range(6)]
    for number in range(topics):
        name = f"cleaned-{number}"
        wire.make_topic(link, name, 2, cleanup_policy="compact")
        for turn in range(4 + number % 12):
            for index in (0, 1):
                wire.written(link, name, batches[turn % 6], index)
        link.request(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 4)
    expect_compaction(trial)


@case(short={"partitions": 100}, long={"partitions": 9_000}, kept_mb=96)
def wide_topic_deleted(trial: Trial, *, partitions: int) -> None:
    """A topic of many partitions is made, written to here and there, and deleted in parts. Python's allocator keeps
    what nine thousand open logs took, in pieces; the next such topic takes it from there."""
    link = trial.connect()
    wire.make_topic(link, "wide", partitions)
    wire.make_topic(link, "beside", max(1, partitions // 10))
    for index in range(0, partitions, max(1, partitions // 50)):
        wire.written(link, "wide", wire.batch_of([b"v"]), index)
    for name in ("beside", "wide"):
        gone = link.request(DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000), 4).responses[0]
        trial.require(gone.error_code == 0, f"DeleteTopics: {ErrorCode(gone.error_code).name}")


@case(short={"requests": 20}, long={"requests": 2_000})
def deleted_while_fetched(trial: Trial, *, requests: int) -> None:
    """Fetches over two topics, one of which goes away and comes back all the time: the other one is always answered."""
    link, reader = trial.connect(), trial.connect()
    wire.make_topic(link, "stays")
    wire.written(link, "stays", wire.batch_of([b"here"]))
    for number in range(requests):
        wire.make_topic(link, "comes-and-goes")
        wire.produced(link.request(wire.produce("comes-and-goes", wire.batch_of([b"v" * 10_000])), 9))
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=name, partitions=[partition]) for name in ("comes-and-goes", "stays")]
        reader.send(
            request_frame(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 11, number)
            + request_frame(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics[1:]), 11, number)
        )
        link.request(DeleteTopicsRequest(topic_names=["comes-and-goes"], timeout_ms=10_000), 4)
        for _ in range(2):
            reader.frame()
    answered = link.request(wire.fetch("stays", 0), 11).responses[0].partitions[0]
    kept = [record.value for record in records_of(answered.records)] if answered.records else []
    trial.require(kept == [b"here"], f"the topic that stays has {kept}")
