"""Snapshots of a cluster of several brokers: each broker, and each partition with its own leader."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordination.cluster import Beginning
from coordinator.cluster.image import ClusterImage
from coordinator.cluster.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from coordinator.cluster.snapshot import freeze, snapshot_batches, thaw
from protocol.codec import decode, read_metadata_frame
from protocol.messages.topics import CreatePartitionsTopic, DeleteTopicState
from tests.unit.cluster.cluster_rig import ClusterRig, topic
from tests.unit.cluster.test_several_brokers import (
    all_of,
    brokers,
    cluster,
    elect,
    end_life,
    leaders,
    move,
    register,
    replay,
)


def loaded(image: ClusterImage, *, single: bool) -> ClusterRig:
    frozen = freeze(image, set(image.removed), single=single)
    found = reloaded(list(snapshot_batches(frozen, 3)), frozen.end_offset)
    thaw(image, frozen, taken=True)
    return found


def reloaded(batches: list[bytes], end_offset: int) -> ClusterRig:
    rig = ClusterRig()
    for entry in Beginning(end_offset, 3, list(batches)).entries():
        rig.machine.replay(entry)
    return rig


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("start", "end", "create", "delete", "grow", "move", "elect")),
        st.integers(1, 4),
        st.sampled_from("ab"),
    ),
    max_size=20,
)


def do(rig: ClusterRig, what: str, number: int, name: str) -> None:
    image = rig.machine.image
    living = tuple(node for node, one in image.brokers.items() if not one.fenced)
    if living:
        rig.rules = ClusterRig(is_alone=False).rules
    if what == "start":
        register(rig, number)
    elif what == "end" and living != (number,):
        end_life(rig, number)
    elif what == "create":
        rig.create(topic(name, number))
    elif what == "delete":
        rig.delete(DeleteTopicState(name=name))
    elif what == "grow":
        rig.grow(CreatePartitionsTopic(name=name, count=2 * number, assignments=None))
    elif what == "move":
        move(rig, living, number)
    elif what == "elect" and name in image.topics:
        elect(rig, (image.topics[name].topic_id, number - 1, living[-1]))


@settings(max_examples=80, deadline=None)
@given(STEPS, STEPS, st.integers(0, 3))
def test_a_snapshot_holds_all_brokers_and_leaders_as_they_were(
    steps: list[tuple[str, int, str]], more: list[tuple[str, int, str]], at: int
) -> None:
    rig = cluster((1, 2))
    for step in steps:
        do(rig, *step)
    before = all_of(rig.machine)
    assert all_of(rig.reloaded().machine) == before
    frozen = freeze(rig.machine.image, set(rig.machine.image.removed), single=False)
    batches = []
    for number, batch in enumerate(snapshot_batches(frozen, 3)):
        batches.append(batch)
        if number == at:
            for step in more:
                do(rig, *step)
    thaw(rig.machine.image, frozen, taken=True)
    assert all_of(reloaded(batches, frozen.end_offset).machine) == before


def test_a_topic_that_changes_while_it_is_written_is_as_it_was() -> None:
    rig = cluster()
    for count in range(500, 2001, 500):
        rig.create(topic(f"t{count}", count))
    before = all_of(rig.machine)
    frozen = freeze(rig.machine.image, (), single=False)
    batches = []
    for batch in snapshot_batches(frozen, 3):
        batches.append(batch)
        if len(batches) == 5:
            assert move(rig, (3,), 10_000) > 3000
    assert len(batches) > 10, "topics are written in parts"
    assert all_of(rig.machine)["leaders"] != before["leaders"]
    assert all_of(reloaded(batches, frozen.end_offset).machine) == before


def test_a_snapshot_remembers_the_highest_epoch_of_what_is_gone() -> None:
    rig = cluster((1, 2))
    rig.create(topic("t", 1))
    rig.delete(DeleteTopicState(name="t"))
    replay(rig, UnregisterBrokerRecord(broker_id=2, broker_epoch=1))
    found = loaded(rig.machine.image, single=False).machine.image
    assert (found.epoch, found.broker_epoch, brokers(found)) == (1, 0, {1: (0, False)})


def test_a_snapshot_of_a_node_that_is_alone_is_of_its_latest_start() -> None:
    rig = ClusterRig()
    register(rig, 1)
    rig.create(topic("t", 2))
    register(rig, 1)
    found = loaded(rig.machine.image, single=True).machine.image
    assert leaders(rig.machine.image)["t"] == [(1, 0)] * 2
    assert (leaders(found)["t"], brokers(found)) == ([(1, 1)] * 2, {1: (1, False)})
    frozen = freeze(rig.machine.image, ())
    kinds = [
        read_metadata_frame(entry.value)[0]
        for entry in Beginning(1, 0, list(snapshot_batches(frozen, 3))).entries()
        if entry.value is not None
    ]
    assert kinds == [12] * 5 + [0, 2, 3, 3], "features, its registration, the topic with its partitions"


def test_partitions_of_a_snapshot_are_field_by_field_as_kafka_writes_them() -> None:
    rig = cluster((1, 2))
    rig.create(topic("t", 2))
    end_life(rig, 2)
    replay(rig, PartitionChangeRecord(partition_id=0, topic_id=rig.machine.image.topics["t"].topic_id, leader=-1))
    frozen = freeze(rig.machine.image, (), single=False)
    found: dict[type, list[Any]] = {PartitionRecord: [], RegisterBrokerRecord: []}
    for entry in Beginning(1, 0, list(snapshot_batches(frozen, 3))).entries():
        assert entry.value is not None
        key, version, position = read_metadata_frame(entry.value)
        for cls, known in ((PartitionRecord, 3), (RegisterBrokerRecord, 0)):
            if key == known:
                found[cls].append(decode(cls, version, entry.value, position)[0])
    nobody, second = found[PartitionRecord]
    assert (nobody.leader, nobody.replicas, nobody.isr, nobody.directories) == (-1, [], [], [])
    assert (second.leader, second.replicas, second.isr, second.directories) == (2, [2], [2], [bytes([18]) * 16])
    assert [(one.broker_id, one.fenced) for one in found[RegisterBrokerRecord]] == [(1, False), (2, True)]
    assert rig.machine.image.brokers[2].registration.fenced is False, "the log's own record stays as it is"
