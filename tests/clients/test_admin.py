"""Requests of administrators: topics, configs, partitions, records, groups, transactions, producers, the cluster."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

from tests.harness.broker import NODE_COUNT
from tests.harness.confluent import (
    SECONDS,
    admin,
    consumer,
    make_topic,
    producer,
    read_all,
    values_of,
    wait_until,
    write,
)


def error_of(future: object) -> str:
    with pytest.raises(KafkaException) as caught:
        future.result(SECONDS)  # type: ignore[attr-defined]
    return str(caught.value.args[0].name())


def test_topics_are_created_described_and_deleted(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name, 3)
    found = asker.list_topics(name, SECONDS).topics[name]
    assert sorted(found.partitions) == [0, 1, 2]
    described = asker.describe_topics(_collection([name]))[name].result(SECONDS)
    assert len(described.partitions) == 3 and str(described.topic_id) != ""
    asker.delete_topics([name])[name].result(SECONDS)
    wait_until(lambda: name not in asker.list_topics(timeout=SECONDS).topics, "the topic gone")
    assert error_of(asker.delete_topics([name])[name]) == "UNKNOWN_TOPIC_OR_PART"


def _collection(names: list[str]) -> TopicCollection:
    return TopicCollection(names)


def test_what_cannot_be_created_is_refused_each_for_its_reason(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name)
    refusals = {
        name: (NewTopic(name, 1, 1), "TOPIC_ALREADY_EXISTS"),
        "not/legal": (NewTopic("not/legal", 1, 1), "TOPIC_EXCEPTION"),
        f"{name}-config": (NewTopic(f"{name}-config", 1, 1, config={"no.such.key": "1"}), "INVALID_CONFIG"),
        f"{name}-value": (NewTopic(f"{name}-value", 1, 1, config={"retention.ms": "soon"}), "INVALID_CONFIG"),
    }
    answers = asker.create_topics([topic for topic, _ in refusals.values()])
    assert {topic: error_of(answers[topic]) for topic in refusals} == {t: code for t, (_, code) in refusals.items()}
    only_checked = asker.create_topics([NewTopic(f"{name}-check", 1, 1)], validate_only=True)
    only_checked[f"{name}-check"].result(SECONDS)
    assert f"{name}-check" not in asker.list_topics(timeout=SECONDS).topics


def test_a_topic_made_anew_is_another_topic(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name)
    write(bootstrap, name, [b"of the first"])
    first = asker.describe_topics(_collection([name]))[name].result(SECONDS).topic_id
    asker.delete_topics([name])[name].result(SECONDS)
    wait_until(lambda: name not in asker.list_topics(timeout=SECONDS).topics, "the topic gone")
    make_topic(bootstrap, name)
    second = asker.describe_topics(_collection([name]))[name].result(SECONDS).topic_id
    assert str(first) != str(second)
    assert read_all(bootstrap, name) == []


def test_partitions_are_added_and_never_taken_away(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name, 2)
    asker.create_partitions([NewPartitions(name, 5)])[name].result(SECONDS)
    wait_until(lambda: len(asker.list_topics(name, SECONDS).topics[name].partitions) == 5, "five partitions")
    write(bootstrap, name, [b"in the new one"], partition=4)
    assert [message.partition() for message in read_all(bootstrap, name)] == [4]
    assert error_of(asker.create_partitions([NewPartitions(name, 3)])[name]) == "INVALID_PARTITIONS"


def configs(bootstrap: str, topic: str) -> dict[str, ConfigEntry]:
    asker = admin(bootstrap)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return asker.describe_configs([resource])[resource].result(SECONDS)


def test_configs_are_described_with_their_source_and_altered(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name, retention__ms="3600000")
    found = configs(bootstrap, name)
    assert found["retention.ms"].value == "3600000" and not found["retention.ms"].is_default
    assert found["cleanup.policy"].value == "delete" and found["cleanup.policy"].is_default
    changes = [
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET),
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    asker.incremental_alter_configs([resource])[resource].result(SECONDS)
    wait_until(lambda: configs(bootstrap, name)["max.message.bytes"].value == "2000", "the change")
    found = configs(bootstrap, name)
    assert found["retention.ms"].value == "604800000"
    assert set(found["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    assert [e.name() for e in write(bootstrap, name, [bytes(3000)]).failed] == ["MSG_SIZE_TOO_LARGE"]
    wrong = [ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)]
    refused = ConfigResource(ResourceType.TOPIC, name, incremental_configs=wrong)
    assert error_of(asker.incremental_alter_configs([refused])[refused]) == "INVALID_CONFIG"


def test_the_old_way_of_altering_replaces_the_whole_set(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name, retention__ms="3600000")
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"max.message.bytes": "5000"})
    asker.alter_configs([resource])[resource].result(SECONDS)
    wait_until(lambda: configs(bootstrap, name)["max.message.bytes"].value == "5000", "the change")
    assert configs(bootstrap, name)["retention.ms"].is_default


def test_a_brokers_configs_are_described(bootstrap: str) -> None:
    asker = admin(bootstrap)
    broker = str(next(iter(asker.list_topics(timeout=SECONDS).brokers)))
    resource = ConfigResource(ResourceType.BROKER, broker)
    found = asker.describe_configs([resource])[resource].result(SECONDS)
    assert {"default.replication.factor", "delete.topic.enable", "log.retention.ms", "num.partitions"} <= set(found)


def test_records_are_deleted_up_to_an_offset(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name)
    write(bootstrap, name, [f"{number}".encode() for number in range(10)], partition=0)
    partition = TopicPartition(name, 0, 6)
    assert asker.delete_records([partition])[partition].result(SECONDS).low_watermark == 6
    assert sorted(message.offset() for message in read_all(bootstrap, name, auto__offset__reset="earliest")) == [
        6,
        7,
        8,
        9,
    ]
    first = asker.list_offsets({TopicPartition(name, 0): OffsetSpec.earliest()})
    assert next(iter(first.values())).result(SECONDS).offset == 6
    beyond = TopicPartition(name, 0, 11)
    assert error_of(asker.delete_records([beyond])[beyond]) == "OFFSET_OUT_OF_RANGE"


def test_groups_are_listed_described_moved_and_deleted(bootstrap: str, name: str) -> None:
    asker = admin(bootstrap)
    make_topic(bootstrap, name, 2)
    member = consumer(bootstrap, group__id=name, client__id="the-member")
    member.subscribe([name])
    wait_until(lambda: member.poll(0.1) or member.assignment(), "an assignment")
    listed = asker.list_consumer_groups().result(SECONDS)
    assert name in [group.group_id for group in listed.valid]
    described = asker.describe_consumer_groups([name])[name].result(SECONDS)
    assert described.state.name == "STABLE" and described.partition_assignor == "range"
    assert [m.client_id for m in described.members] == ["the-member"]
    assert len(described.members[0].assignment.topic_partitions) == 2
    assert error_of(asker.delete_consumer_groups([name])[name]) == "NON_EMPTY_GROUP"
    member.close()
    wait_until(
        lambda: asker.describe_consumer_groups([name])[name].result(SECONDS).state.name == "EMPTY", "an empty group"
    )
    moved = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 42)])
    asker.alter_consumer_group_offsets([moved])[name].result(SECONDS)
    offsets = asker.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(SECONDS)
    assert [(p.partition, p.offset) for p in offsets.topic_partitions] == [(0, 42)]
    asker.delete_consumer_groups([name])[name].result(SECONDS)
    assert name not in [group.group_id for group in asker.list_consumer_groups().result(SECONDS).valid]


def test_kafka_python_sees_transactions_and_producers(bootstrap: str, name: str) -> None:
    """DescribeProducers, DescribeTransactions and ListTransactions over one open transaction (KIP-664)."""
    make_topic(bootstrap, name)
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    sender.produce(name, b"open", partition=0)
    sender.flush(SECONDS)
    asker = KafkaAdminClient(bootstrap_servers=bootstrap)
    transaction = asker.describe_transactions([name])[name]
    assert transaction.state.value == "Ongoing"
    assert set(transaction.topic_partitions) == {PythonPartition(name, 0)}
    listed = _flat(asker.list_transactions(state_filters=["Ongoing"]))
    assert [entry.producer_id for entry in listed if entry.transactional_id == name] == [transaction.producer_id]
    states = asker.describe_producers([PythonPartition(name, 0)])[PythonPartition(name, 0)]
    active = [state for state in states.active_producers if state.producer_id == transaction.producer_id]
    assert [state.current_transaction_start_offset for state in active] == [0]
    sender.commit_transaction(SECONDS)
    wait_until(lambda: asker.describe_transactions([name])[name].state.value == "CompleteCommit", "the end")
    assert values_of(read_all(bootstrap, name)) == [b"open"]
    asker.close()


def _flat(found: object) -> list[object]:
    return [entry for part in found.values() for entry in part] if isinstance(found, dict) else list(found)


def test_kafka_python_administers_topics_groups_and_configs(bootstrap: str, name: str) -> None:
    asker = KafkaAdminClient(bootstrap_servers=bootstrap)
    asker.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "3600000"}}})
    wait_until(lambda: name in asker.list_topics(), "the topic")
    asker.create_partitions({name: 3})
    wait_until(lambda: len(asker.describe_topics([name])[0]["partitions"]) == 3, "three partitions")
    write(bootstrap, name, [b"x"] * 5, partition=0)
    asker.delete_records({PythonPartition(name, 0): 3})
    assert [message.offset() for message in read_all(bootstrap, name)] == [3, 4]
    cluster = asker.describe_cluster()
    nodes = [one["broker_id"] for one in cluster["brokers"]]
    assert len(nodes) == NODE_COUNT and cluster["controller_id"] in nodes
    asker.delete_topics([name])
    wait_until(lambda: name not in asker.list_topics(), "the topic gone")
    asker.close()


def test_the_cluster_describes_itself(bootstrap: str) -> None:
    asker = admin(bootstrap)
    found = asker.describe_cluster().result(SECONDS)
    assert len(found.nodes) == NODE_COUNT and found.controller.id in [one.id for one in found.nodes]
    assert found.cluster_id
    assert asker.describe_cluster().result(SECONDS).cluster_id == found.cluster_id
