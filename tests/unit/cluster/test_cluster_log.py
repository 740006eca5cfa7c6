"""The metadata log: what was said there is known again after any restart; ids and epochs never come twice."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.api.services import Services
from coordinator.cluster.configs import Alteration, AlteredResource
from coordinator.cluster.coordinator import LAST_PRODUCER_ID, Registration
from coordinator.cluster.framing import framed
from coordinator.cluster.image import ClusterImage
from coordinator.cluster.records import (
    NoOpRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from coordinator.machine import Record, ReplayedRecord
from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.codec import decode, metadata_frame, read_metadata_frame
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatePartitionsTopic, DeleteTopicState
from protocol.records.batch import headers_in
from protocol.records.record import records_of
from tests.harness import jars
from tests.harness.memory_shard_log import MemoryShardLog
from tests.unit.cluster.cluster_rig import ClusterRig, image_of, topic, with_node

NAMES = ("a", "b", "c.d", "c_d")


def register(rig: ClusterRig) -> int:
    epoch = rig.machine.image.epoch + 1
    return int(
        rig.ask(
            lambda machine, ticket: machine.register(
                ticket, Registration(1, bytes(16), epoch, "r1", (("P", "h", 9, 0),))
            )
        )
    )


def acl(name: str, number: int) -> Acl:
    pattern = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
    return Acl(ResourceType.TOPIC, name, pattern, f"User:{number}", "*", Operation.READ, Permission.ALLOW)


def do(rig: ClusterRig, step: tuple[str, str, int]) -> None:
    what, name, number = step
    if what == "create":
        rig.create(topic(name, number, configs={"retention.ms": str(number)}))
    elif what == "delete":
        rig.delete(DeleteTopicState(name=name))
    elif what == "grow":
        rig.grow(CreatePartitionsTopic(name=name, count=number, assignments=None))
    elif what == "alter":
        changes = (Alteration("segment.ms", str(number)), Alteration("retention.ms", None, 1))
        resources = [AlteredResource(2, name, changes), AlteredResource(4, "", (Alteration("message.max.bytes", "7"),))]
        rig.ask(lambda machine, ticket: machine.alter_configs(ticket, resources, rig.rules, Counter([(2, name)])))
    elif what == "allow":
        acls = [acl(name, one) for one in range(number)]
        rig.ask(lambda machine, ticket: machine.create_acls(ticket, acls, fresh_id=rig.fresh_id))
    elif what == "forbid":
        ids = list(rig.machine.image.acls.by_id)[:number]
        rig.ask(lambda machine, ticket: machine.remove_acls(ticket, [*ids, bytes(16)]))
    elif what == "ids":
        rig.ask(lambda machine, ticket: machine.take_producer_ids(ticket, 1, 0))
    else:
        register(rig)


def test_acls_are_made_for_as_long_as_there_is_time() -> None:
    """One at least, or a request would never end."""
    acls = [acl("a", number) for number in range(4)]
    for in_time, count in ((False, 1), (True, 4)):
        rig = ClusterRig()
        results = rig.ask(
            lambda machine, ticket, rig=rig, late=not in_time: machine.create_acls(  # type: ignore[misc]
                ticket, acls, fresh_id=rig.fresh_id, spent=lambda: late
            )
        )
        assert results == [None] * count
        assert list(rig.machine.image.acls.by_id.values()) == acls[:count]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("create", "delete", "grow", "alter", "allow", "forbid", "ids", "register")),
        st.sampled_from(NAMES),
        st.integers(1, 5),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_replay_from_the_log_gives_what_was_live(steps: list[tuple[str, str, int]]) -> None:
    """State is a function of the log alone, live and after a restart."""
    rig = ClusterRig()
    for step in steps:
        do(rig, step)
    assert image_of(rig.reloaded().machine) == image_of(rig.machine)


@settings(max_examples=30, deadline=None)
@given(STEPS, st.integers(0, 25))
def test_a_log_cut_between_batches_is_a_past_state(steps: list[tuple[str, str, int]], kept: int) -> None:
    """One batch for each decision: a crash leaves all of it or nothing."""
    rig = ClusterRig()
    seen = [image_of(rig.machine)]
    for step in steps:
        before = len(rig.log.batches)
        do(rig, step)
        assert len(rig.log.batches) <= before + 1
        if len(rig.log.batches) > before:
            seen.append(image_of(rig.machine))
    kept = min(kept, len(rig.log.batches))
    assert image_of(ClusterRig(rig.log.copy(kept)).machine) == seen[kept]


def test_the_time_of_an_image_is_the_latest_that_was_said() -> None:
    image, frame = ClusterImage(), framed([NoOpRecord()])[0].value
    assert frame is not None
    for offset, (said_ms, latest_ms) in enumerate(((10, 10), (5, 10), (11, 11))):
        image.replay(offset, frame, said_ms)
        assert (image.last_offset, image.last_timestamp_ms) == (offset, latest_ms)
        assert image.record_bytes == (offset + 1) * len(frame)


def test_every_start_has_an_epoch_of_its_own() -> None:
    rig = ClusterRig()
    epochs = [register(rig)]
    for _ in range(3):
        rig = rig.reloaded()
        epochs.append(register(rig))
    assert epochs == [0, 1, 2, 3]
    told = rig.machine.image.registration
    assert told is not None and (told.broker_id, told.broker_epoch, told.rack, told.fenced) == (1, 3, "r1", False)
    (endpoint,) = told.end_points
    assert (endpoint.name, endpoint.host, endpoint.port, endpoint.security_protocol) == ("P", "h", 9, 0)
    assert rig.machine.image.features == {
        "group.version": 1,
        "metadata.version": 29,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    """A block is in the log before it is answered; after a restart the next one begins behind it."""
    rig = ClusterRig()
    blocks = [rig.ask(lambda machine, ticket: machine.take_producer_ids(ticket, 1, 0)) for _ in range(3)]
    rig = rig.reloaded()
    blocks.append(rig.ask(lambda machine, ticket: machine.take_producer_ids(ticket, 1, 1)))
    assert [(block.first, block.count) for block in blocks] == [(0, 1000), (1000, 1000), (2000, 1000), (3000, 1000)]


def test_a_block_is_answered_only_when_it_is_durable() -> None:
    rig = ClusterRig(MemoryShardLog(durable=False))
    results: list[Any] = []

    class Told:
        def release(self, answer: Any) -> None:
            results.append(answer)

        def refuse(self, error: ErrorCode) -> None:
            raise AssertionError(error)

    ticket = Told()
    rig.shard.submit(lambda machine, now_ms: machine.take_producer_ids(ticket, 1, 0), ticket)
    assert results == []
    rig.log.sync()
    assert results[0].first == 0


def test_the_last_producer_id_of_all_is_not_run_over() -> None:
    rig = ClusterRig()
    last = ProducerIdsRecord(broker_id=1, broker_epoch=0, next_producer_id=LAST_PRODUCER_ID - 10)
    (record,) = framed([last])
    assert record.value is not None
    rig.machine.replay(ReplayedRecord(0, 0, None, b"", record.value))
    assert rig.ask(lambda m, ticket: m.take_producer_ids(ticket, 1, 0)) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_records_of_kinds_that_are_not_known_are_passed_over() -> None:
    """KIP-915: a log that a later version wrote can still be read."""
    rig = ClusterRig()
    for value in (framed([NoOpRecord()])[0].value, bytes([1, 90, 0, 1, 2, 3])):
        assert value is not None
        rig.machine.replay(ReplayedRecord(0, 0, None, b"", value))
    assert rig.machine.image.topics == {}


def test_kafka_reads_the_log(tmp_path: Path) -> None:
    """DumpLogSegments with its metadata decoder finds every record, and no fault."""
    try:
        class_path = jars.class_path("kafka")
    except jars.JarsMissing as reason:
        pytest.skip(f"needs Java and Kafka's jars: {reason}")
    import subprocess

    rig = ClusterRig()
    for step in (("register", "", 0), ("create", "a", 2), ("grow", "a", 3), ("alter", "a", 5), ("ids", "", 0)):
        do(rig, step)
    rig.create(topic("b", 1))
    do(rig, ("delete", "b", 0))
    named = [(rig.machine.image.topics["a"].topic_id, 1, 2)]
    rig.ask(lambda machine, ticket: machine.elect(ticket, named))
    rig.ask(lambda machine, ticket: machine.end_life(ticket, 1))
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    log = folder / "00000000000000000000.log"
    log.write_bytes(b"".join(batch for _, batch in rig.log.batches))
    command = [str(jars.java()), "-Xmx128m", "-cp", class_path, "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, "--cluster-metadata-decoder", "--files", str(log)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    kinds = ("FEATURE_LEVEL", "REGISTER_BROKER", "TOPIC", "PARTITION", "CONFIG", "PRODUCER_IDS", "REMOVE_TOPIC")
    for kind in (*kinds, "PARTITION_CHANGE", "BROKER_REGISTRATION_CHANGE"):
        assert f'"type":"{kind}_RECORD"' in done.stdout, kind
    assert "isvalid: false" not in done.stdout and "Could not" not in done.stdout + done.stderr


def test_a_record_is_framed_as_kafka_frames_it() -> None:
    (record,) = framed([ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000)])
    assert record == Record(None, bytes.fromhex("010f0000000001000000000000000200000000000003e800"))


def test_the_log_matches_kafka_of_our_metadata_version(tmp_path: Path) -> None:
    """No keys, the advertised endpoints, and in which directory each partition is."""

    async def story(node: Services) -> None:
        await node.topics.auto_create_all(["t"])

    with_node(story, folder=tmp_path)
    data = (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    records = [record for position, _ in headers_in(data) for record in records_of(data, position)]
    assert {record.key for record in records} == {None}
    values = [record.value for record in records if record.value is not None]
    found = {cls: _all_of(cls, key, version, values) for cls, key, version in WRITTEN}
    (registered,) = found[RegisterBrokerRecord]
    assert [(one.name, one.port) for one in registered.end_points] == [("PLAINTEXT", 9092), ("OUTSIDE", 19092)]
    assert [one.security_protocol for one in registered.end_points] == [0, 3]
    assert [one.directories for one in found[PartitionRecord]] == [registered.log_dirs] * 2
    assert registered.log_dirs != [bytes(16)]


WRITTEN: tuple[tuple[type, int, int], ...] = ((RegisterBrokerRecord, 0, 3), (PartitionRecord, 3, 1))


def _all_of(cls: type, key: int, version: int, frames: list[bytes]) -> list[Any]:
    heads = [(read_metadata_frame(frame), frame) for frame in frames]
    return [
        decode(cls, version, frame, at)[0] for (found, *rest, at), frame in heads if [found, *rest] == [key, version]
    ]


def test_records_of_an_earlier_layout_are_read() -> None:
    """Folders written before: partitions without directories, and empty keys."""
    image = ClusterImage()
    topic_id = bytes(15) + b"\x07"
    image.replay(0, metadata_frame(TopicRecord(name="old", topic_id=topic_id), 0))
    record = PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], removing_replicas=[], adding_replicas=[], leader=1
    )
    for index, version in enumerate((0, 1, 2)):
        record.partition_id = index
        image.replay(1 + index, metadata_frame(record, version))
    assert image.topics["old"].partition_count == 3
