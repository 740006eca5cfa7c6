"""Several brokers in one cluster: what the metadata log says of them and of who leads what, and how it comes to."""

import asyncio
import copy
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.api.services import Services
from broker.coordination.cluster import Beginning
from coordinator.cluster.configs import Alteration, AlteredResource
from coordinator.cluster.coordinator import ClusterCoordinator, Registration
from coordinator.cluster.framing import framed
from coordinator.cluster.image import ClusterImage, LeaderChange
from coordinator.cluster.records import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from coordinator.machine import ReplayedRecord
from protocol.codec import decode, metadata_frame, read_metadata_frame
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatePartitionsAssignment, CreatePartitionsTopic, DeleteTopicState
from tests.unit.cluster.cluster_rig import ClusterRig, image_of, topic, with_node
from tests.unit.cluster.test_wide_topics import built, create, grow

LIVING = (1, 2, 3)


def register(rig: ClusterRig, node: int) -> int:
    epoch = rig.machine.image.epoch + 1
    registration = Registration(node, bytes([node]) * 16, epoch, None, directory=bytes([16 + node]) * 16)
    return int(rig.ask(lambda machine, ticket: machine.register(ticket, registration)))


def cluster(living: tuple[int, ...] = LIVING, **rules: Any) -> ClusterRig:
    rig = ClusterRig(is_alone=False, **rules)
    for node in living:
        register(rig, node)
    return rig


def end_life(rig: ClusterRig, node: int) -> None:
    rig.ask(lambda machine, ticket: machine.end_life(ticket, node))


def move(rig: ClusterRig, living: Sequence[int], limit: int = 1000) -> int:
    return int(rig.ask(lambda machine, ticket: machine.move_leaders(ticket, living, limit)))


def elect(rig: ClusterRig, *named: tuple[bytes, int, int]) -> int:
    return int(rig.ask(lambda machine, ticket: machine.elect(ticket, named)))


def replay(rig: ClusterRig, *messages: object) -> None:
    for record in framed(messages):
        assert record.value is not None
        rig.machine.replay(ReplayedRecord(rig.machine.image.last_offset + 1, 0, None, b"", record.value))


def leaders(image: ClusterImage) -> dict[str, list[tuple[int, int]]]:
    return {name: list(one.leaders) for name, one in image.topics.items()}


def brokers(image: ClusterImage) -> dict[int, tuple[int, bool]]:
    return {node: (one.registration.broker_epoch, one.fenced) for node, one in image.brokers.items()}


def all_of(machine: ClusterCoordinator) -> dict[str, Any]:
    image = machine.image
    led = Counter(node for one in image.topics.values() for node in one.leaders.nodes())
    assert +image.led == led, "who leads how many is what the topics say"
    return image_of(machine) | {"leaders": leaders(image), "brokers": brokers(image), "epoch": image.epoch}


# -- what the log says -------------------------------------------------------------------------------------------


def test_brokers_register_end_and_are_taken_away() -> None:
    rig = cluster((1, 2))
    image = rig.machine.image
    assert brokers(image) == {1: (0, False), 2: (1, False)}
    end_life(rig, 1)
    assert brokers(image) == {1: (0, True), 2: (1, False)}
    replay(rig, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0))
    assert brokers(image)[1] == (0, True), "of its life it says nothing"
    replay(rig, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1))
    assert brokers(image)[1] == (0, False)
    end_life(rig, 1)
    assert register(rig, 1) == 2
    assert brokers(image) == {1: (2, False), 2: (1, False)}
    replay(rig, UnregisterBrokerRecord(broker_id=1, broker_epoch=2))
    assert brokers(image) == {2: (1, False)}
    assert (image.broker_epoch, image.epoch, register(rig, 3)) == (2, 2, 3)


def test_an_end_that_is_known_is_written_once() -> None:
    rig = cluster((1, 2))
    end_life(rig, 2)
    end = rig.log.end_offset
    end_life(rig, 2)
    end_life(rig, 9)
    assert rig.log.end_offset == end


def test_what_becomes_of_brokers_is_told() -> None:
    rig = cluster((1, 2))
    end_life(rig, 1)
    replay(rig, UnregisterBrokerRecord(broker_id=1, broker_epoch=0))
    told = rig.machine.image.changes
    assert [(one.topic, one.brokers) for one in told] == [(None, True)] * 4
    assert [one.offset for one in told] == [5, 6, 7, 8], "behind the features of a new cluster"


def test_other_leaders_are_told_apart() -> None:
    """Nothing else of the topic has changed: who follows topics need not look at their settings anew."""
    rig = cluster()
    rig.create(topic("t", 3), topic("u", 1))
    image = rig.machine.image
    image.changes.clear()
    image.leader_changes = deque()
    found = image.topics["t"]
    assert elect(rig, (found.topic_id, 1, 3), (found.topic_id, 0, 2)) == 2
    assert list(image.leader_changes) == [
        LeaderChange(image.last_offset - 1, found.topic_id, 1, 3, 3),
        LeaderChange(image.last_offset, found.topic_id, 0, 2, 3),
    ]
    assert not image.changes
    assert leaders(image)["t"] == [(2, 3), (3, 3), (3, 2)]
    assert image.epoch == 3


def test_a_change_as_kafka_writes_it_has_the_next_epoch_of_its_partition() -> None:
    """It does not name one. What leaves the leader as it is has none."""
    rig = cluster()
    rig.create(topic("t", 2))
    image = rig.machine.image
    topic_id = image.topics["t"].topic_id
    register(rig, 1)
    replay(rig, PartitionChangeRecord(partition_id=1, topic_id=topic_id, leader=-1))
    assert leaders(image)["t"] == [(1, 2), (-1, 3)]
    image.changes.clear()
    replay(rig, PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
    assert leaders(image)["t"] == [(1, 2), (-1, 3)] and image.changes == []
    assert image.epoch == 3


def test_an_epoch_of_a_partition_never_comes_again() -> None:
    rig = cluster()
    rig.create(topic("t", 1))
    topic_id = rig.machine.image.topics["t"].topic_id
    with pytest.raises(AssertionError, match="epochs only grow"):
        replay(rig, PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2, leader_epoch=2))
    with pytest.raises(AssertionError, match="an epoch is used once"):
        rig.machine.register(None, Registration(1, bytes(16), 2, None))  # type: ignore[arg-type]


def test_what_is_named_but_gone_is_passed_over() -> None:
    rig = cluster()
    rig.create(topic("t", 1))
    topic_id = rig.machine.image.topics["t"].topic_id
    assert elect(rig, (topic_id, 1, 2), (bytes(16), 0, 2), (topic_id, 0, 3), (topic_id, 0, 2)) == 1
    assert leaders(rig.machine.image)["t"] == [(2, 3)]


def test_the_highest_epoch_counts_what_is_gone() -> None:
    rig = cluster((1,))
    image = rig.machine.image
    rig.create(topic("t", 1))
    assert elect(rig, (image.topics["t"].topic_id, 0, 1)) == 1
    rig.delete(DeleteTopicState(name="t"))
    assert (image.epoch, +image.led) == (1, {})


def test_readers_of_kafka_pass_over_our_fields() -> None:
    """A reader that does not know a tag skips it; everything else stands where it stood."""
    change = PartitionChangeRecord(partition_id=1, topic_id=b"t" * 16, isr=[2], leader=2, replicas=[2], leader_epoch=7)
    plain = copy.copy(change)
    plain.leader_epoch = -1
    with_epoch, without = metadata_frame(change, 1), metadata_frame(plain, 1)
    own = bytes.fromhex("904e0400000007")  # the tag 10000, four bytes, the epoch
    assert with_epoch == without.replace(bytes([3, 0, 5]), bytes([4, 0, 5])) + own
    position = read_metadata_frame(with_epoch)[2]
    assert decode(PartitionChangeRecord, 1, with_epoch, position)[0] == change
    assert metadata_frame(NoOpRecord(), 0).hex() == "01140000"


@pytest.mark.parametrize("settings_first", [True, False])
def test_what_becomes_of_brokers_hides_no_change_of_their_settings(tmp_path: Path, settings_first: bool) -> None:
    """Both are durable at once."""

    async def story(node: Services) -> None:
        resources = [AlteredResource(4, "", (Alteration("message.max.bytes", "7000"),))]
        rules, changes = node.topics.rules(), node.cluster.image.changes
        asked: list[Awaitable[object]] = [
            node.cluster.ask(lambda machine, ticket: machine.alter_configs(ticket, resources, rules, Counter())),
            node.cluster.ask(lambda machine, ticket: machine.end_life(ticket, node.node_id)),
        ]
        together = asyncio.gather(*(asked if settings_first else reversed(asked)))
        while not together.done():
            await asyncio.sleep(0)
            seen.add(len(changes))
        assert node.config.get_int("message.max.bytes") == 7000

    seen: set[int] = set()
    with_node(story, folder=tmp_path)
    assert 2 in seen, seen


# -- moving ------------------------------------------------------------------------------------------------------


def test_what_a_node_led_goes_to_others_some_at_a_time() -> None:
    rig = cluster()
    rig.create(topic("t", 6), topic("u", 3))
    end_life(rig, 2)
    assert move(rig, (1, 3), 2) == 2
    assert move(rig, (1, 3), 2) == 1
    assert move(rig, (1, 3), 2) == 0
    image = rig.machine.image
    assert leaders(image) == {
        "t": [(1, 2), (1, 3), (3, 2), (1, 2), (3, 3), (3, 2)],
        "u": [(1, 2), (1, 3), (3, 2)],
    }
    assert +image.led == {1: 5, 3: 4}
    assert all_of(rig.reloaded().machine) == all_of(rig.machine)


def test_records_of_other_leaders_say_who_is_all_of_the_replicas() -> None:
    rig = cluster((1, 2))
    rig.create(topic("t", 2))
    assert move(rig, (2,)) == 1
    _, batch = rig.log.batches[-1]
    seen: list[PartitionChangeRecord] = []
    for entry in Beginning(1, 0, [batch]).entries():
        assert entry.value is not None
        key, version, position = read_metadata_frame(entry.value)
        assert (key, version) == (5, 1)
        seen.append(decode(PartitionChangeRecord, version, entry.value, position)[0])
    (record,) = seen
    assert (record.partition_id, record.leader, record.isr, record.replicas) == (0, 2, [2], [2])
    assert record.leader_epoch == 2


# -- making and growing ------------------------------------------------------------------------------------------


def test_those_of_a_node_that_starts_again_have_the_epoch_of_its_start() -> None:
    """As with a node that is alone, whose epoch is that of all it leads."""
    rig = cluster((1,))
    rig.create(topic("t", 2))
    register(rig, 1)
    assert move(rig, (1,)) == 2
    assert leaders(rig.machine.image)["t"] == [(1, 1), (1, 1)]
    assert move(rig, (1,)) == 0


def test_new_partitions_are_spread_with_the_epoch_of_the_latest_start() -> None:
    rig = cluster()
    rig.create(topic("t", 4), topic("u", 1))
    assert leaders(rig.machine.image) == {"t": [(1, 2), (2, 2), (3, 2), (1, 2)], "u": [(2, 2)]}
    rig.grow(CreatePartitionsTopic(name="t", count=7, assignments=None))
    assert leaders(rig.machine.image)["t"][4:] == [(3, 2), (2, 2), (1, 2)]


def test_a_node_that_is_alone_leads_with_the_epoch_of_its_start() -> None:
    rig = ClusterRig(leader_epoch=5)
    rig.create(topic("t", 2))
    rig.grow(CreatePartitionsTopic(name="t", count=3, assignments=None))
    assert leaders(rig.machine.image)["t"] == [(1, 5)] * 3
    assert rig.machine.image.epoch == 5


def test_of_brokers_that_are_named_the_first_that_lives_leads() -> None:
    rig = cluster((1, 2, 3))
    end_life(rig, 2)
    assert rig.errors(topic("t", assignments=[(1, [2, 3]), (0, [3, 1]), (2, [1, 3])]))["t"] == (0, None)
    assert [node for node, _ in leaders(rig.machine.image)["t"]] == [3, 3, 1]
    wanted = [CreatePartitionsAssignment(broker_ids=ids) for ids in ([2, 1], [3, 2])]
    (grown,) = rig.grow(CreatePartitionsTopic(name="t", count=5, assignments=wanted))
    assert grown.error_code == 0
    assert [node for node, _ in leaders(rig.machine.image)["t"][3:]] == [1, 3]


def test_brokers_that_are_named_are_known_and_one_of_them_lives() -> None:
    rig = cluster((1, 2, 3))
    end_life(rig, 2)
    unknown = (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    )
    assert rig.errors(topic("t", assignments=[(0, [1, 9])]))["t"] == unknown
    message = "All brokers specified in the manual partition assignment for partition {} are fenced or in "
    message += "controlled shutdown."
    fenced = rig.errors(topic("t", assignments=[(0, [1]), (1, [2])]))["t"]
    assert fenced == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message.format(1))
    rig.create(topic("t", 3))
    wanted = CreatePartitionsTopic(name="t", count=4, assignments=[CreatePartitionsAssignment(broker_ids=[2])])
    (grown,) = rig.grow(wanted)
    assert (grown.error_code, grown.error_message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message.format(3))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 90), st.integers(1, 90))
def test_wide_topics_are_led_as_others_are(first: int, more: int) -> None:
    rig, plain = cluster(), cluster()
    assert create(rig, "t", first, built(rig, "t", first))
    assert grow(rig, "t", first + more, built(rig, "t", first + more))
    plain.create(topic("t", first, configs={"retention.ms": "5"}))
    plain.grow(CreatePartitionsTopic(name="t", count=first + more, assignments=None))
    reloaded = rig.reloaded().machine
    assert all_of(reloaded) == all_of(rig.machine) == all_of(plain.machine)


def test_a_wide_topic_is_decided_anew_where_its_epoch_was_taken_meanwhile() -> None:
    rig = cluster()
    wide = built(rig, "t", 70)
    register(rig, 3)
    assert create(rig, "t", 70, wide) is None
    assert create(rig, "t", 70, built(rig, "t", 70))
    wider = built(rig, "t", 140)
    register(rig, 2)
    assert grow(rig, "t", 140, wider) is None
    assert grow(rig, "t", 140, built(rig, "t", 140))


def test_what_was_built_for_a_node_that_ended_meanwhile_is_not_taken() -> None:
    rig = cluster()
    rig.create(topic("grown", 2))
    made, grown = built(rig, "made", 70), built(rig, "grown", 70)
    end_life(rig, 3)
    assert create(rig, "made", 70, made) is None and grow(rig, "grown", 70, grown) is None
    move(rig, (1, 2))
    rig.create(topic("t", 4))
    assert create(rig, "made", 70, built(rig, "made", 70)) and grow(rig, "grown", 70, built(rig, "grown", 70))
    assert rig.machine.image.led[3] == 0


def test_nothing_is_made_where_nobody_lives() -> None:
    rig = cluster((1,))
    rig.create(topic("t", 1))
    wide = built(rig, "wide", 70)
    end_life(rig, 1)
    nobody = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
    assert rig.errors(topic("u", 1))["u"] == (ErrorCode.INVALID_REPLICATION_FACTOR, nobody)
    (grown,) = rig.grow(CreatePartitionsTopic(name="t", count=2, assignments=None))
    assert (grown.error_code, grown.error_message) == (ErrorCode.INVALID_REPLICATION_FACTOR, nobody)
    assert create(rig, "wide", 70, wide) is None
