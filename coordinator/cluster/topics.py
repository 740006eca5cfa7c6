"""Creating and growing topics: each entry of a request is decided on its own, and every entry is answered.

Pure: reads an image, returns answers and the records that make them true. A request is planned as a whole (what is
named twice, what is too much), and then decided entry by entry, as far as there is time: the caller goes on behind the
entries that were answered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from coordinator.cluster.image import TOPIC_RESOURCE, ClusterImage, TopicImage
from coordinator.cluster.keys.config_keys import TOPIC_KEYS, Layers, check_topic_values
from coordinator.cluster.keys.config_types import InvalidConfig
from coordinator.cluster.leaders import Leaders, led_partition
from coordinator.cluster.records import ConfigRecord, PartitionRecord, TopicRecord
from coordinator.cluster.spread import Spread
from coordinator.cluster.topic_rules import (
    LONGEST_NAME,
    MOST_PARTITIONS_PER_REQUEST,
    MOST_RECORDS_PER_REQUEST,
    TOO_LARGE,
    Refused,
    check_name,
    check_replicas,
    check_replication,
)
from protocol.errors import ErrorCode
from protocol.internal_topics import CLUSTER_METADATA, INTERNAL_TOPICS
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    DeleteTopicState,
)

NO_ID = bytes(16)
T = TypeVar("T", CreatableTopic, DeleteTopicState, CreatePartitionsTopic)


@dataclass(frozen=True, slots=True)
class Planned(Generic[T]):
    """An entry of a request, and what the rest of the request refuses it for."""

    entry: T
    refused: Refused | None = None


def never_spent() -> bool:
    """For callers with the time to decide a whole request."""
    return False


@dataclass(frozen=True, slots=True)
class Rules:
    """The parts of the broker's configuration and identity these decisions depend on."""

    node_id: int
    leader_epoch: int
    """Of new partitions of a node that is alone."""
    layers: Layers
    directory: bytes = bytes(16)
    """The id of the data folder in which new partitions are put."""
    num_partitions: int = 1
    longest_name: int = LONGEST_NAME
    strict: bool = False
    is_alone: bool = True
    """Whether this node leads all partitions; else new ones are spread over those that live when it is decided."""
    deletion_enabled: bool = True
    internal_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """What internal topics are made with, by name; a request may add to it, but cannot change it."""
    asked_from: str = ""
    understands: Callable[[str], bool] = bool
    """What a change of settings comes from: an address; whether a text is a regular expression here."""


@dataclass(slots=True)
class Decided:
    """Records, as messages, in order."""

    records: list[object] = field(default_factory=list[object])


TWICE = Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


# -- creating ------------------------------------------------------------------------------------------------------


def plan_creation(image: ClusterImage, topics: Sequence[CreatableTopic], rules: Rules) -> list[Planned[CreatableTopic]]:
    """The topics of a CreateTopics, each name once: refused if it is there twice, and all if they are too much."""
    counts = Counter(topic.name for topic in topics)
    partitions = records = 0
    for topic in topics:
        count = len(topic.assignments) or max(topic.num_partitions, 0) or rules.num_partitions
        partitions += count
        if topic.name not in image.topics:
            records += 1 + len(topic.configs) + count
    too_much: Refused | None = None
    if partitions > MOST_PARTITIONS_PER_REQUEST:
        too_much = Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    elif records > MOST_RECORDS_PER_REQUEST:
        too_much = Refused(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    return [
        Planned(topic, TWICE if counts[topic.name] > 1 else too_much)
        for topic in {topic.name: topic for topic in topics}.values()
    ]


def create(
    image: ClusterImage,
    topics: Iterable[Planned[CreatableTopic]],
    rules: Rules,
    fresh_id: Callable[[], bytes],
    decided: Decided,
    spent: Callable[[], bool] = never_spent,
    *,
    validate_only: bool = False,
) -> list[CreatableTopicResult]:
    """Decide a CreateTopics, one entry at least."""
    results: list[CreatableTopicResult] = []
    spread = spread_of(image, rules)
    for planned in topics:
        topic = planned.entry
        try:
            if planned.refused is not None:
                raise planned.refused
            results.append(_create_one(image, topic, rules, fresh_id, spread, None if validate_only else decided))
        except Refused as refused:
            code = refused.error
            results.append(
                CreatableTopicResult(name=topic.name, error_code=code, error_message=refused.message, configs=[])
            )
        if spent():
            break
    return results


def decide_creation(image: ClusterImage, topic: CreatableTopic, rules: Rules) -> tuple[int, dict[str, str]]:
    """(number of partitions, settings) of a topic that may be made. Raises `Refused`."""
    _check_new_name(image, topic.name, rules.longest_name)
    configs = _configs(topic, rules)
    return _partition_count(image, topic, rules), configs


def created(image: ClusterImage, topic: CreatableTopic, rules: Rules, topic_id: bytes) -> CreatableTopicResult:
    """The result for a topic that is created."""
    count, configs = decide_creation(image, topic, rules)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=count,
        replication_factor=1,
        configs=_described(configs, rules.layers),
    )


def topic_records(name: str, topic_id: bytes, configs: Mapping[str, str]) -> list[object]:
    """What stands before the partitions of a topic."""
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=value)
            for key, value in configs.items()
        ),
    ]


def _create_one(
    image: ClusterImage,
    topic: CreatableTopic,
    rules: Rules,
    fresh_id: Callable[[], bytes],
    spread: Spread,
    decided: Decided | None,
) -> CreatableTopicResult:
    count, configs = decide_creation(image, topic, rules)
    if decided is None:
        return created(image, topic, rules, NO_ID)
    topic_id = fresh_id()
    while topic_id == NO_ID or topic_id in image.by_id:
        topic_id = fresh_id()
    decided.records.extend(topic_records(topic.name, topic_id, configs))
    leaders = creation_leaders(topic, spread)
    decided.records.extend(partition_records(topic_id, range(count), leaders, spread.epoch, rules))
    return created(image, topic, rules, topic_id)


def _check_new_name(image: ClusterImage, name: str, longest: int) -> None:
    check_name(name, longest)
    if name in image.topics or name == CLUSTER_METADATA:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    collision = image.collision(name)
    if collision is not None:
        message = f"Topic '{name}' collides with existing topic: {collision}"
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _partition_count(image: ClusterImage, topic: CreatableTopic, rules: Rules) -> int:
    if not topic.assignments:
        check_replication(topic.replication_factor, strict=rules.strict)
        if topic.num_partitions == 0 or topic.num_partitions < -1:
            message = "Number of partitions was set to an invalid non-positive value."
            raise Refused(ErrorCode.INVALID_PARTITIONS, message)
        _check_somebody_lives(image, rules)
        return rules.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    for value, what in ((topic.replication_factor, "replication factor"), (topic.num_partitions, "numPartitions")):
        if value != -1:
            message = f"A manual partition assignment was specified, but {what} was not set to -1."
            raise Refused(ErrorCode.INVALID_REQUEST, message)
    by_index: dict[int, Sequence[int]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in by_index:
            message = f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        by_index[assignment.partition_index] = assignment.broker_ids
    _check_assigned(image, by_index, rules)
    if sorted(by_index) != list(range(len(by_index))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return len(by_index)


def _configs(topic: CreatableTopic, rules: Rules) -> dict[str, str]:
    """The settings the topic is made with; where a key is there twice, the last one holds, as in Kafka."""
    missing = [config.name for config in topic.configs if config.value is None]
    if missing:
        message = f"Null value not supported for topic configs: {','.join(missing)}"
        raise Refused(ErrorCode.INVALID_CONFIG, message)
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    configs |= rules.internal_configs.get(topic.name, {})
    try:
        check_topic_values(configs, rules.layers)
    except InvalidConfig as problem:
        raise Refused(ErrorCode.INVALID_CONFIG, str(problem)) from None
    return configs


def _described(configs: Mapping[str, str], layers: Layers) -> list[CreatableTopicConfigs]:
    """What the topic was made with as it came, as in Kafka; `DescribeConfigs` says what was read from it."""
    resolved = (layers.topic(key, configs) for key in TOPIC_KEYS.values())
    return [
        CreatableTopicConfigs(
            name=one.key.name,
            value=configs.get(one.key.name, one.value),
            read_only=False,
            config_source=one.source,
            is_sensitive=False,
        )
        for one in resolved
    ]


# -- who leads new partitions --------------------------------------------------------------------------------------


def spread_of(image: ClusterImage, rules: Rules) -> Spread:
    """How the new partitions of one batch are spread, and under which epoch."""
    if rules.is_alone:
        return Spread((rules.node_id,), {}, rules.leader_epoch)
    return Spread(image.living, image.led, max(image.epoch, 0), image.racks)


def _check_somebody_lives(image: ClusterImage, rules: Rules) -> None:
    if not (rules.is_alone or image.living):
        message = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def creation_leaders(topic: CreatableTopic, spread: Spread) -> Iterable[int]:
    """Of a topic that may be made."""
    if topic.assignments:
        in_order = sorted(topic.assignments, key=lambda one: one.partition_index)
        return spread.assigned(one.broker_ids for one in in_order)
    return spread.choose(Leaders())


def growth_leaders(topic: TopicImage, wanted: CreatePartitionsTopic, spread: Spread) -> Iterable[int]:
    """Of what is new of a topic that may grow."""
    if wanted.assignments is not None:
        return spread.assigned(one.broker_ids for one in wanted.assignments)
    return spread.choose(topic.leaders)


def partition_records(
    topic_id: bytes, indexes: range, leaders: Iterable[int], epoch: int, rules: Rules
) -> Iterable[PartitionRecord]:
    """Those of new partitions; `leaders` may go on behind them."""
    for index, leader in zip(indexes, leaders, strict=False):
        yield led_partition(topic_id, index, leader, epoch, [rules.directory])


def _check_assigned(image: ClusterImage, by_index: Mapping[int, Sequence[int]], rules: Rules) -> None:
    if rules.is_alone:
        check_replicas(list(by_index.values()), {rules.node_id}, strict=rules.strict)
        return
    check_replicas(list(by_index.values()), image.brokers.keys(), strict=True)
    living = image.living
    for index, replicas in by_index.items():
        if not set(replicas).intersection(living):
            message = (
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


# -- growing -------------------------------------------------------------------------------------------------------


def plan_growth(topics: Sequence[CreatePartitionsTopic]) -> list[Planned[CreatePartitionsTopic]]:
    """The topics of a CreatePartitions, each name once; one that is there twice is refused."""
    counts = Counter(topic.name for topic in topics)
    distinct = {topic.name: topic for topic in topics}.values()
    return [Planned(topic, TWICE if counts[topic.name] > 1 else None) for topic in distinct]


def grow(
    image: ClusterImage,
    topics: Iterable[Planned[CreatePartitionsTopic]],
    rules: Rules,
    decided: Decided,
    spent: Callable[[], bool] = never_spent,
) -> list[CreatePartitionsTopicResult]:
    """Decide a CreatePartitions, one entry at least."""
    results: list[CreatePartitionsTopicResult] = []
    spread = spread_of(image, rules)
    for planned in topics:
        topic = planned.entry
        try:
            if planned.refused is not None:
                raise planned.refused
            _grow_one(image, topic, rules, spread, decided)
            results.append(CreatePartitionsTopicResult(name=topic.name))
        except Refused as refused:
            code = refused.error
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=refused.message))
        if spent():
            break
    return results


def _grow_one(
    image: ClusterImage, wanted: CreatePartitionsTopic, rules: Rules, spread: Spread, decided: Decided
) -> None:
    topic = decide_growth(image, wanted, rules)
    indexes, leaders = range(topic.partition_count, wanted.count), growth_leaders(topic, wanted, spread)
    decided.records.extend(partition_records(topic.topic_id, indexes, leaders, spread.epoch, rules))


def decide_growth(image: ClusterImage, wanted: CreatePartitionsTopic, rules: Rules) -> TopicImage:
    """The topic that may grow. Raises `Refused`."""
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)  # without words, as in Kafka
    have = topic.partition_count
    if wanted.count == have:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if wanted.count < have:
        message = f"The topic {topic.name} currently has {have} partition(s); {wanted.count} would not be an increase."
        raise Refused(ErrorCode.INVALID_PARTITIONS, message)
    additional = wanted.count - have
    if additional > MOST_PARTITIONS_PER_REQUEST:
        raise Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if topic.name in INTERNAL_TOPICS:
        # The partition of a group or transactional id follows from the number of partitions.
        raise Refused(ErrorCode.INVALID_REQUEST, f"The number of partitions of {topic.name} cannot change.")
    if wanted.assignments is not None:
        if len(wanted.assignments) != additional:
            message = (
                f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified."
            )
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        by_index = {have + number: one.broker_ids for number, one in enumerate(wanted.assignments)}
        _check_assigned(image, by_index, rules)
    else:
        _check_somebody_lives(image, rules)
    return topic
