"""Attacks by what looks like an operator: settings that lock everybody out, forged records, huge topics."""

from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from protocol.records.record import NewRecord, build_batch
from tests.attacks import wire
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.attacks.wire import Link
from tests.harness.framing import request_frame

TOPIC, BROKER = 2, 4
SET, APPEND = 0, 2


def set_config(
    kind: int, name: str, key: str, value: str | None, operation: int = SET
) -> IncrementalAlterConfigsRequest:
    setting = IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[setting]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


@case(short={"rounds": 1}, long={"rounds": 3})
def settings_that_lock_out(trial: Trial, *, rounds: int) -> None:
    """Dynamic settings with which nobody could connect any more, or nothing could be written."""
    link = trial.connect()
    keys = {
        "max.connections": "0",
        "max.connections.per.ip": "0",
        "max.connection.creation.rate": "0",
        "max.connections.per.ip.overrides": "127.0.0.1:0,::1:0",
    }
    for _ in range(rounds):
        for key, value in keys.items():
            for name in ("", "1"):
                answered = link.request(set_config(BROKER, name, key, value), 1).responses[0]
                trial.require(answered.error_code != 0, f"{key}={value} was taken for the broker {name!r}")
    with Link(trial.bootstrap) as another:
        another.request(wire.versions(), 0)


@case(short={"ids": 20}, long={"ids": 100})
def forged_admin_client(trial: Trial, *, ids: int) -> None:
    """A client with the id `__admin_client` writes rubbish into the topics of the coordinators."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "any", 0)
    for number in range(ids):
        wire.initialised(link, f"forged-{number}")
    codes: set[str] = set()
    for topic in ("__transaction_state", "__consumer_offsets", "__cluster_metadata"):
        for number in range(ids):
            name = b"forged-%d" % number
            key = b"\x00\x00" + len(name).to_bytes(2, "big") + name
            for value in (b"\x00\x00\x00", b"\x7f\xff" + bytes(10), b""):
                batch = bytes(build_batch([NewRecord(key=key, value=value, timestamp_ms=1_700_000_000_000)]))
                request = wire.produce(topic, batch, index=number % 8)
                codes.add(ErrorCode(wire.produced(link.request(request, 9, client_id="__admin_client"))[0]).name)
    trial.note(f"answered {', '.join(sorted(codes))}")
    trial.after_restart = lambda after: _all_initialise(after, ids)


def _all_initialise(link: Link, ids: int) -> None:
    for number in range(ids):
        wire.initialised(link, f"forged-{number}")


@case(short={"topics": 15}, long={"topics": 900}, kept_mb=96)
def topics_made_and_deleted(trial: Trial, *, topics: int) -> None:
    """Topics of ten partitions are made and deleted at once, over and over, all in one request: as many as Kafka
    takes records into one batch of metadata."""
    link = trial.connect()
    for turn in range(3):
        names = [f"turn-{turn}-{number}" for number in range(topics)]
        made = link.request(wire.create_topics(names, 10), 5)
        assert not any(topic.error_code for topic in made.topics)
        gone = link.request(DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 4)
        trial.require(not any(one.error_code for one in gone.responses), "topics could not be deleted")


@case(short={"topics": 500}, long={"topics": 50_000})
def impossible_topics(trial: Trial, *, topics: int) -> None:
    """CreateTopics and CreatePartitions with counts, names and settings that cannot be."""
    link = trial.connect()
    wire.make_topic(link, "possible")
    for partitions in (0, -2, 10_002, (1 << 31) - 1):
        answered = link.request(wire.create_topics(["impossible"], partitions), 5).topics[0]
        trial.require(answered.error_code != 0, f"a topic of {partitions} partitions was made")
        more = CreatePartitionsTopic(name="possible", count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=[more], timeout_ms=1_000, validate_only=False)
        added = link.request(request, 1).results[0]
        trial.require(added.error_code != 0, f"a topic was given {partitions} partitions")
    names = [f"not/allowed-{number}" for number in range(topics)]
    trial.require(all(topic.error_code for topic in link.request(wire.create_topics(names), 5).topics), "names")
    same = wire.create_topics(["twice"] * topics)
    link.request(same, 5)
    valid = CreateTopicsRequest(topics=wire.create_topics(["only-asked"], 9_000).topics, validate_only=True)
    link.request(valid, 5)


@case(short={"settings": 8}, long={"settings": 500})
def large_settings(trial: Trial, *, settings: int) -> None:
    """Settings with the longest names and values, appended to again and again; unknown keys by the thousand."""
    link = trial.connect()
    wire.make_topic(link, "configured")
    length = 32_760
    for number in range(settings):
        value = ",".join(f"{number}:{index}" for index in range(length // 8))[:length]
        for key, text, operation in (
            ("leader.replication.throttled.replicas", value, APPEND),
            ("x" * length, value, SET),
            ("x" * length, value, APPEND),
            ("retention.ms", value, SET),
            ("cleanup.policy", value, APPEND),
        ):
            link.request(set_config(TOPIC, "configured", key, text, operation), 1)
        link.request(set_config(BROKER, "1", "x" * length, value), 1)
        link.request(set_config(TOPIC, "t" * length, "retention.ms", "1"), 1)
        link.request(wire.create_topics(["made-" * 6_000], cleanup_policy=value), 5)
    keys = [AlterConfigsRequestAlterableConfig(name=f"no.such.{number}", value="v") for number in range(settings * 50)]
    resource = AlterConfigsRequestAlterConfigsResource(resource_type=TOPIC, resource_name="configured", configs=keys)
    link.request(AlterConfigsRequest(resources=[resource], validate_only=False), 1)


@case(short={"requests": 40}, long={"requests": 2_000})
def trimmed_while_read(trial: Trial, *, requests: int) -> None:
    """DeleteRecords to every offset there is and to those that are not, while the partition is written and read."""
    link, reader = trial.connect(), trial.connect()
    wire.make_topic(link, "trimmed")
    batch = wire.batch_of([b"v" * 100])
    for number in range(requests):
        code, offset = wire.produced(link.request(wire.produce("trimmed", batch), 9))
        assert code == ErrorCode.NONE, ErrorCode(code)
        reader.send(request_frame(wire.fetch("trimmed", max(0, offset - 2)), 11, number))
        for wanted in (offset, -1, offset + 10, -5)[number % 2 :: 2]:
            partition = DeleteRecordsPartition(partition_index=0, offset=wanted)
            topics = [DeleteRecordsTopic(name="trimmed", partitions=[partition])]
            link.request(DeleteRecordsRequest(topics=topics, timeout_ms=1_000), 1)
        reader.frame()
