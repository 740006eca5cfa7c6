"""Attacks on the coordinators of groups and transactions: overflows, what fits into no batch, much to load."""

from collections.abc import Iterable
from contextlib import suppress

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from protocol.messages.groups import (
    DeleteGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol.messages.produce import ProduceRequest
from protocol.messages.topics import DeleteTopicsRequest
from protocol.messages.transactions import AddPartitionsToTxnTopic, InitProducerIdRequest, ListTransactionsRequest
from tests.attacks import wire
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.attacks.wire import Hangup, Link
from tests.harness.framing import request_frame

LONG_MAX = (1 << 63) - 1


def commit(
    group: str, partitions: Iterable[int], *, topic: str = "honest", metadata: str = "", retention_ms: int = -1
) -> OffsetCommitRequest:
    """Offsets from outside of a group's generations."""
    offsets = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=metadata)
        for index in partitions
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=offsets)]
    return OffsetCommitRequest(group_id=group, member_id="", retention_time_ms=retention_ms, topics=topics)


@case(short={"requests": 300}, long={"requests": 3_000})
def overflowing_retention(trial: Trial, *, requests: int) -> None:
    """OffsetCommits whose retention time, added to now, is beyond int64; to groups beside the honest one."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "overflowing", 0)
    for number in range(requests):
        link.request(commit(f"overflowing-{number % 50}", [0], retention_ms=LONG_MAX), 2 + number % 3)


@case(
    short={"requests": 40},
    long={"requests": 2_000},
    settings={"tallystick.groups.max.bytes": str(32 << 20)},
    kept_mb=96,  # blocks of 30 KB between others of 60 KB: the allocator gives back half of what it might
)
def long_member_ids(trial: Trial, *, requests: int) -> None:
    """Members with ids, instances and group names that fit into a request and into no record."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "long-names", 0)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
    for number in range(requests):
        for field in ("group_id", "member_id", "group_instance_id", "protocol_type"):
            names = {"group_id": f"long-{number}", "member_id": "", "protocol_type": "consumer"}
            names |= {field: f"{number:05}" + "x" * (32_762 if number % 2 else 30_000)}
            joining = JoinGroupRequest(session_timeout_ms=6_000, rebalance_timeout_ms=100, protocols=protocols, **names)
            with suppress(Hangup):
                one = trial.connect()
                one.send(request_frame(joining, 7, 1, "x" * 32_762))
        trial.hang_up()
    trial.connect().request(commit("x" * 32_000, [0]), 7)


@case(short={"requests": 200}, long={"requests": 10_000})
def transactions_of_nothing(trial: Trial, *, requests: int) -> None:
    """AddPartitionsToTxn without topics, without partitions, of topics that do not exist, and of all that again."""
    link = trial.connect()
    wire.make_topic(link, "there")
    producer = wire.initialised(link, "nothing")
    shapes: list[dict[str, list[int]]] = [{}, {"no-such-topic": []}, {"there": []}, {"there": [9]}, {"there": [0, 0]}]
    for number in range(requests):
        request = wire.add_partitions("nothing", producer, shapes[number % len(shapes)])
        if number % 7 == 6:
            request.v3_and_below_topics *= 2
        link.request(request, number % 4)
        if number % 5 == 4:
            link.request(wire.end_transaction("nothing", producer, committed=bool(number % 2)), 3)


@case(
    short={"transactions": 64, "topics": 6},
    long={"transactions": 64, "topics": 320},
    settings={"message.max.bytes": "20000"},
)
def timed_out_together(trial: Trial, *, transactions: int, topics: int) -> None:
    """Transactions that time out at one moment, and whose ends fit into no batch together."""
    link = trial.connect()
    names = [f"{number:04}-" + "t" * 240 for number in range(topics)]
    made = link.request(wire.create_topics(names), 5)
    assert not any(topic.error_code for topic in made.topics)
    for number in range(transactions):
        name = f"late-{number}"
        producer = wire.initialised(link, name, timeout_ms=500)
        for start in range(0, topics, 40):
            request = wire.add_partitions(name, producer, {topic: [0] for topic in names[start : start + 40]})
            link.request(request, 3)
    ongoing = ListTransactionsRequest(state_filters=["Ongoing", "PrepareAbort"], producer_id_filters=[])

    def all_aborted() -> bool:
        states = link.request(ongoing, 0).transaction_states
        return not any(state.transactional_id.startswith("late-") for state in states)

    trial.wait_until(all_aborted, "the transactions that timed out are aborted", seconds=60)


@case(
    short={"offsets": 60},
    long={"offsets": 2_000},
    settings={"message.max.bytes": "20000"},
)
def group_of_many_offsets(trial: Trial, *, offsets: int) -> None:
    """A group with more offsets than tombstones fit into a batch is deleted."""
    link = trial.connect()
    topic, group = "t" * 240, "many-offsets" + "g" * 240
    wire.make_topic(link, topic, offsets)
    wire.wait_for_coordinator(link, group, 0)
    for start in range(0, offsets, 30):
        request = commit(group, range(start, min(offsets, start + 30)), topic=topic)
        for partition in link.request(request, 7).topics[0].partitions:
            assert partition.error_code == ErrorCode.NONE, ErrorCode(partition.error_code)
    result = link.request(DeleteGroupsRequest(groups_names=[group]), 1).results[0]
    trial.require(result.error_code == 0, f"the group cannot be deleted: {ErrorCode(result.error_code).name}")
    fetching = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, offsets - 1])]
    )
    kept = [one.committed_offset for one in link.request(fetching, 5).topics[0].partitions]
    trial.require(kept == [-1, -1], f"offsets of a group that was deleted: {kept}")


FILLED_PARTITIONS = 100


def _fill_offsets(trial: Trial, *, megabytes: int) -> None:
    with Link(trial.bootstrap) as link:
        wire.make_topic(link, "filled", FILLED_PARTITIONS)
        wire.wait_for_coordinator(link, "filling-0", 0)
        for number in range(megabytes * 10 // 4):
            request = commit(
                f"filling-{number}", range(FILLED_PARTITIONS), topic="filled", metadata=f"{number:06}" + "m" * 4_000
            )
            assert wire.first_partition_error(wire.retried(link, request, 7, wire.first_partition_error)) == 0
    trial.restart()


@case(short={"megabytes": 4}, long={"megabytes": 300}, prepare=_fill_offsets, honest=("probe",), kept_mb=1_000)
def loading_offsets(trial: Trial, *, megabytes: int) -> None:
    """A restart with much to load: Metadata is answered while the coordinators read their logs."""
    link = trial.connect()
    for number in range(megabytes * 10 // 4):
        asking = OffsetFetchRequest(
            group_id=f"filling-{number}", topics=[OffsetFetchRequestTopic(name="filled", partition_indexes=[99])]
        )
        answered = wire.retried(link, asking, 5, wire.whole_error)
        offset = answered.topics[0].partitions[0].committed_offset
        trial.require(offset == 7, f"the offset of filling-{number} is {offset} after loading")


def _fill_transactions(trial: Trial, *, ids: int) -> None:
    with Link(trial.bootstrap) as link:
        for number in range(ids):
            wire.initialised(link, f"{number:06}-" + "t" * 200)
    trial.restart()


@case(short={"ids": 150}, long={"ids": 10_000}, prepare=_fill_transactions, honest=("probe",), kept_mb=200)
def loading_transactions(trial: Trial, *, ids: int) -> None:
    """A restart with many transactional ids to load."""
    link = trial.connect()
    request = InitProducerIdRequest(transactional_id="000000-" + "t" * 200, transaction_timeout_ms=60_000)
    answered = wire.retried(link, request, 4, wire.whole_error)
    trial.require(answered.producer_epoch == 1, f"epoch {answered.producer_epoch} after loading, where 1 is next")


@case(
    short={"rounds": 4, "producers": 6},
    long={"rounds": 200, "producers": 6},
    settings={"transaction.state.log.num.partitions": "1"},
)
def deleted_under_transactions(trial: Trial, *, rounds: int, producers: int) -> None:
    """Topics are deleted while transactional records of the new protocol wait for admission to them."""
    admin = trial.connect()
    links = [trial.connect() for _ in range(producers)]
    states = [wire.initialised(link, f"deleted-{number}") for number, link in enumerate(links)]
    for number in range(rounds):
        names = [f"going-{number}-{index}" for index in range(producers)]
        for name in names:
            wire.make_topic(admin, name)
        for index, (link, (producer_id, epoch)) in enumerate(zip(links, states, strict=True)):
            batch = wire.batch_of(
                [b"v"], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
            )
            request: ProduceRequest = wire.produce(names[index], batch, transactional_id=f"deleted-{index}")
            link.send(request_frame(request, 12, number))
        admin.request(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 4)
        for link in links:
            assert wire.correlation_of(link.frame()) == number
        states = [wire.initialised(link, f"deleted-{index}") for index, link in enumerate(links)]


@case(
    short={"partitions": 60},
    long={"partitions": 9_900},
    prepare=lambda trial, partitions: _make_partitions(trial, "wide", partitions),
)
def transaction_over_many_partitions(trial: Trial, *, partitions: int) -> None:
    """One transaction over all partitions of a wide topic, committed, then another one, aborted."""
    link = trial.connect()
    for committed in (True, False):
        producer = wire.initialised(link, "wide")
        for start in range(0, partitions, 1_000):
            some = list(range(start, min(partitions, start + 1_000)))
            request = wire.add_partitions("wide", producer, {"wide": some})
            assert wire.first_partition_error(wire.retried(link, request, 3, wire.first_partition_error)) == 0
        ended = link.request(wire.end_transaction("wide", producer, committed), 3)
        trial.require(ended.error_code == 0, f"EndTxn: {ErrorCode(ended.error_code).name}")
    wire.initialised(link, "wide")


def _make_partitions(trial: Trial, name: str, partitions: int) -> None:
    with Link(trial.bootstrap) as link:
        wire.make_topic(link, name, partitions)


@case(short={"members": 60, "metadata_bytes": 2_000}, long={"members": 1_000, "metadata_bytes": 20_000}, peak_mb=400)
def crowded_group(trial: Trial, *, members: int, metadata_bytes: int) -> None:
    """A group of many members with much to say, which all join, get assignments and are gone without a word."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "crowded", 0)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(metadata_bytes))]
    crowd = [trial.connect() for _ in range(members)]
    for one in crowd:
        joining = JoinGroupRequest(
            group_id="crowded",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=300,
            member_id="",
            protocol_type="consumer",
            protocols=protocols,
        )
        one.send(request_frame(joining, 3, 1))
    for one in crowd[:5]:
        one.frame()
    assignments = [
        SyncGroupRequestAssignment(member_id=f"m{number}", assignment=bytes(500)) for number in range(members)
    ]
    syncing = SyncGroupRequest(group_id="crowded", generation_id=1, member_id="m0", assignments=assignments)
    link.request(syncing, 3)


@case(short={"topics": 5}, long={"topics": 200})
def forgotten_topics_in_transactions(trial: Trial, *, topics: int) -> None:
    """AddPartitionsToTxn of brokers (version 4 and 5) with many transactions of one id at once."""
    link = trial.connect()
    wire.initialised(link, "verified")
    some = [AddPartitionsToTxnTopic(name=f"none-{number}", partitions=list(range(50))) for number in range(topics)]
    for verify in (True, False):
        request = wire.add_many("verified", some, count=50, verify_only=verify)
        for version in (4, 5):
            with suppress(Hangup):
                trial.connect().request(request, version)
