"""Short forms: what stands behind an API's name in a step, and which fields it fills.

Produce t-0 a k:v            DeleteRecords t-0=3            ListOffsets t-0=latest t-1=T+5
Fetch t-0@3                  AddPartitionsToTxn t-0 t-1     TxnOffsetCommit t-0=5
EndTxn commit                WriteTxnMarkers abort t-0      OffsetFetch g t-0
SyncGroup M1=a M2=b          CreateTopics t partitions=2    DescribeConfigs topic t retention.ms and topic u

A step that writes a list of structures out (`topics=[{name=t}]`) and has no other words is sent as it stands.
"""

import re
from collections.abc import Callable
from typing import Any

from tests.scenarios.normalise import Names
from tests.scenarios.requests import Literal, value_of
from tests.scenarios.share_phrases import SHARE_PHRASES, coordinator_keys
from tests.scenarios.streams_phrases import streams_heartbeat

Said = dict[str, Any]
Phrase = Callable[[list[str], Said, int, Names], Said]
TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
RESOURCES = {"topic": 2, "broker": 4, "logger": 8, "client-metrics": 16, "group": 32, "unknown": 0}
OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
PARTITION = re.compile(r"^(.*)-(\d+)$")


def partition(word: str) -> tuple[str, int]:
    found = PARTITION.match(word)
    assert found, f"{word!r} is not a partition"
    name = found[1]
    return (Literal(name[1:-1]) if name.startswith('"') else name), int(found[2])


def by_topic(words: list[str], key: str, make: Callable[[int, str], Any], name: str = "name") -> list[Said]:
    """Words such as t-0=5 as topics with what each says of its partitions."""
    topics: list[Said] = []
    for word in words:
        place, _, rest = word.partition("=") if "=" in word else word.partition("@")
        topic, index = partition(place)
        if not topics or topics[-1][name] != topic:
            topics.append({name: topic, key: []})
        topics[-1][key].append(make(index, rest))
    return topics


def indexes(words: list[str], key: str = "partitions") -> list[Said]:
    return by_topic(words, key, lambda index, _: index)


def add_partitions(words: list[str], said: Said, version: int, names: Names) -> Said:
    topics = indexes(words)
    if "transactions" in said:
        return said
    if version < 4:
        return {**said, "topics": topics}
    verify = said.pop("verify_only", False)
    return {"transactions": [{**said, "verify_only": verify, "topics": topics}]}


def offsets(words: list[str], said: Said, version: int, names: Names) -> Said:
    metadata, epoch = said.pop("metadata", ""), said.pop("leader_epoch", -1)

    def one(index: int, offset: str) -> Said:
        found = {"partition_index": index, "committed_offset": int(offset), "committed_metadata": metadata}
        return {**found, "committed_leader_epoch": epoch}

    return {**said, "topics": by_topic(words, "partitions", one)}


def offset_fetch(words: list[str], said: Said, version: int, names: Names) -> Said:
    if "groups" in said:
        return said
    group, rest = value_of(names, words[0]), words[1:]
    topics = None if rest == ["everything"] else indexes(rest, "partition_indexes")
    if version < 8:
        return {**said, "group_id": group, "topics": topics}
    member = {name: said.pop(name) for name in ("member_id", "member_epoch") if name in said}
    return {**said, "groups": [{"group_id": group, "topics": topics, **member}]}


def fetch(words: list[str], said: Said, version: int, names: Names) -> Said:
    if "read_committed" in words:
        words, said = [word for word in words if word != "read_committed"], {**said, "isolation_level": 1}
    size, epoch = said.pop("partition_max_bytes", 1 << 20), said.pop("leader_epoch", -1)
    fetched = said.pop("last_fetched_epoch", -1)

    def one(index: int, offset: str) -> Said:
        return {
            "partition": index,
            "fetch_offset": int(offset or 0),
            "partition_max_bytes": size,
            "current_leader_epoch": epoch,
            "last_fetched_epoch": fetched,
        }

    forgotten = said.pop("forget", None)
    if forgotten is not None:
        said["forgotten_topics_data"] = indexes([forgotten] if isinstance(forgotten, str) else forgotten)
        for topic in said["forgotten_topics_data"]:
            topic["topic"] = topic.pop("name")
    return {**said, "topics": by_topic(words, "partitions", one, "topic")}


def list_offsets(words: list[str], said: Said, version: int, names: Names) -> Said:
    if "read_committed" in words:
        words, said = [word for word in words if word != "read_committed"], {**said, "isolation_level": 1}
    epoch = said.pop("leader_epoch", -1)

    def one(index: int, time: str) -> Said:
        when = TIMES[time] if time in TIMES else value_of(names, time)
        return {"partition_index": index, "timestamp": when, "current_leader_epoch": epoch}

    return {**said, "topics": by_topic(words, "partitions", one)}


def epochs(words: list[str], said: Said, version: int, names: Names) -> Said:
    def one(index: int, epoch: str) -> Said:
        return {"partition": index, "leader_epoch": value_of(names, epoch)}

    return {**said, "topics": by_topic(words, "partitions", one, "topic")}


def markers(words: list[str], said: Said, version: int, names: Names) -> Said:
    if "markers" in said:
        return said
    marker = {"coordinator_epoch": names.base_epoch, **said, "transaction_result": words[0] == "commit"}
    return {"markers": [{**marker, "topics": indexes(words[1:], "partition_indexes")}]}


def delete_records(words: list[str], said: Said, version: int, names: Names) -> Said:
    make = lambda index, offset: {"partition_index": index, "offset": int(offset)}  # noqa: E731
    return {**said, "topics": by_topic(words, "partitions", make)}


def join(words: list[str], said: Said, version: int, names: Names) -> Said:
    protocols = said.pop("protocols", ["range"])
    metadata = said.pop("metadata", "likes").encode()
    topics = [names.unique(str(topic)).encode() for topic in said.pop("subscribed", [])]
    named = b"".join(len(topic).to_bytes(2, "big") + topic for topic in topics)
    subscription = bytes(2) + len(topics).to_bytes(4, "big") + named
    metadata = subscription + len(metadata).to_bytes(4, "big") + metadata
    said["protocols"] = [{"name": Literal(name), "metadata": metadata} for name in protocols]
    return {**said, **({"group_id": value_of(names, words[0])} if words else {})}


def sync(words: list[str], said: Said, version: int, names: Names) -> Said:
    given = [name for name in said if names.meant_by(name) is not None]
    assignments = [{"member_id": names.meant_by(name), "assignment": str(said.pop(name))} for name in given]
    return {**said, "assignments": assignments}


def leave(words: list[str], said: Said, version: int, names: Names) -> Said:
    if version < 3:
        return said
    members = said.pop("members", None)
    if members is None:
        members = [{name: said.pop(name) for name in ("member_id", "instance") if name in said}]
    return {**said, "members": members}


def move(words: list[str], said: Said, version: int, names: Names) -> Said:
    """to=FOLDER t-0 t-1."""
    return {"dirs": [{"path": said["to"], "topics": indexes(words)}]} if words else said


def reassign(words: list[str], said: Said, version: int, names: Names) -> Said:
    """t-0=[1], or t-0=null for the end of a reassignment."""

    def one(index: int, replicas: str) -> Said:
        return {"partition_index": index, "replicas": value_of(names, replicas)}

    return {**said, "topics": by_topic(words, "partitions", one)} if words else said


def quorum(words: list[str], said: Said, version: int, names: Names) -> Said:
    """Of the metadata log, which has the same name for every story."""
    topics = by_topic(words, "partitions", lambda index, _: {"partition_index": index}, "topic_name")
    return {**said, "topics": [{**topic, "topic_name": Literal(topic["topic_name"])} for topic in topics]}


def create_topics(words: list[str], said: Said, version: int, names: Names) -> Said:
    count, copies = said.pop("partitions", 1), said.pop("replication", 1)
    configs = [{"name": name, "value": str(said.pop(name))} for name in list(said) if "." in name]
    assignments = said.pop("assignments", [])
    shape = {"num_partitions": count, "replication_factor": copies, "assignments": assignments, "configs": configs}
    return {**said, "topics": [{"name": value_of(names, word), **shape} for word in words]}


def delete_topics(words: list[str], said: Said, version: int, names: Names) -> Said:
    if version < 6:
        return {**said, "topic_names": [value_of(names, word) for word in words]}
    return {**said, "topics": [{"name": value_of(names, word)} for word in words]}


def grow(words: list[str], said: Said, version: int, names: Names) -> Said:
    names_said = [name for name in said if name not in ("validate_only", "timeout_ms")]
    topics = [{"name": name, "count": said.pop(name), "assignments": None} for name in names_said]
    return {**said, "topics": topics}


def _resources(words: list[str]) -> list[list[str]]:
    """The words of each resource: `topic t and topic u`."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "and":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _resource(words: list[str], names: Names) -> Said:
    kind, name = RESOURCES[words[0]], value_of(names, words[1]) if len(words) > 1 else Literal("")
    if kind in (2, 32) and not isinstance(name, Literal):
        name = names.unique(name)
    return {"resource_type": kind, "resource_name": str(min(names.node_ids)) if name == "N" else name}


def describe_configs(words: list[str], said: Said, version: int, names: Names) -> Said:
    resources = [{**_resource(part, names), "configuration_keys": part[2:] or None} for part in _resources(words)]
    return {**said, "resources": resources}


def alter_configs(words: list[str], said: Said, version: int, names: Names) -> Said:
    configs = [{"name": name, "value": _text(said.pop(name))} for name in list(said) if "." in name]
    return {**said, "resources": [{**_resource(part, names), "configs": configs} for part in _resources(words)]}


def alter_incrementally(words: list[str], said: Said, version: int, names: Names) -> Said:
    """topic t set retention.ms=5, topic t delete retention.ms=null, or: topic t and topic u set retention.ms=5."""
    parts = _resources(words)
    operation = OPERATIONS[parts[-1].pop()]
    configs = [
        {"name": name, "config_operation": operation, "value": _text(said.pop(name))}
        for name in list(said)
        if "." in name
    ]
    return {**said, "resources": [{**_resource(part, names), "configs": configs} for part in parts]}


def _text(value: Any) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def features(words: list[str], said: Said, version: int, names: Names) -> Said:
    """transaction.version=2, or `down` transaction.version=0, or `force` ..."""
    kind = 2 if "down" in words else 3 if "force" in words else 1
    levels = {name: said.pop(name) for name in list(said) if "." in name}
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind > 1}
        for name, level in levels.items()
    ]
    return {**said, "feature_updates": updates}


def consumer_heartbeat(words: list[str], said: Said, version: int, names: Names) -> Said:
    """ConsumerGroupHeartbeat g joins=[t], owns=[t-0 t-1], leaves, leaves for a while; or its fields as they are."""
    group = {"group_id": value_of(names, words[0])} if words and words[0] not in ("leaves",) else {}
    if "leaves" in words:
        return {**group, **said, "member_epoch": -2 if "while" in words else -1}
    if "joins" in said:
        first = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "topic_partitions": []}
        said = first | {"subscribed_topic_names": said.pop("joins")} | said
    if "owns" in said:
        owned = by_topic([str(word) for word in said.pop("owns")], "partitions", lambda index, _: index, "topic_id")
        said["topic_partitions"] = owned
    if said.get("subscribed_topic_names"):
        said["subscribed_topic_names"] = [names.unique(name) for name in said["subscribed_topic_names"]]
    return {**group, **said}


def coordinator(words: list[str], said: Said, version: int, names: Names) -> Said:
    if not words:
        return said
    kind = {"group": 0, "transaction": 1, "share": 2}[words[0]]
    keys = coordinator_keys(words[1:], names) if kind == 2 else [value_of(names, word) for word in words[1:]]
    return {**said, "key_type": kind, **({"coordinator_keys": keys} if version >= 4 else {"key": keys[0]})}


def first_word(field: str, list_field: bool = False) -> Phrase:
    def fill(words: list[str], said: Said, version: int, names: Names) -> Said:
        values = [value_of(names, word) for word in words]
        return {**said, **({field: values} if list_field else {field: values[0]} if values else {})}

    return fill


def named(field: str) -> Phrase:
    """A list of structures that hold a name."""
    return lambda words, said, version, names: {**said, field: [{"name": value_of(names, word)} for word in words]}


PHRASES: dict[str, Phrase] = {
    "InitProducerId": first_word("transactional_id"),
    "AddPartitionsToTxn": add_partitions,
    "AddOffsetsToTxn": first_word("group_id"),
    "EndTxn": lambda words, said, *_: {**said, **({"committed": words[0] == "commit"} if words else {})},
    "TxnOffsetCommit": offsets,
    "OffsetCommit": offsets,
    "OffsetFetch": offset_fetch,
    "OffsetDelete": lambda words, said, *_: {
        **said,
        "topics": by_topic(words, "partitions", lambda index, _: {"partition_index": index}),
    },
    "Fetch": fetch,
    "ListOffsets": list_offsets,
    "OffsetForLeaderEpoch": epochs,
    "WriteTxnMarkers": markers,
    "DescribeProducers": lambda words, said, *_: {**said, "topics": indexes(words, "partition_indexes")},
    "DescribeTransactions": first_word("transactional_ids", list_field=True),
    "DeleteRecords": delete_records,
    "DescribeLogDirs": lambda words, said, *_: {
        **said,
        "topics": by_topic(words, "partitions", lambda index, _: index, "topic"),
    },
    "AlterReplicaLogDirs": move,
    "ElectLeaders": lambda words, said, *_: (
        {**said, "topic_partitions": by_topic(words, "partitions", lambda index, _: index, "topic")} if words else said
    ),
    "AlterPartitionReassignments": reassign,
    "ListPartitionReassignments": lambda words, said, *_: (
        {**said, "topics": indexes(words, "partition_indexes")} if words else said
    ),
    "DescribeQuorum": quorum,
    "JoinGroup": join,
    "SyncGroup": sync,
    "Heartbeat": first_word("group_id"),
    "ConsumerGroupHeartbeat": consumer_heartbeat,
    "ConsumerGroupDescribe": first_word("group_ids", list_field=True),
    "ShareGroupDescribe": first_word("group_ids", list_field=True),
    **SHARE_PHRASES,
    "StreamsGroupHeartbeat": streams_heartbeat,
    "StreamsGroupDescribe": first_word("group_ids", list_field=True),
    "LeaveGroup": leave,
    "DescribeGroups": first_word("groups", list_field=True),
    "DeleteGroups": first_word("groups_names", list_field=True),
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "CreatePartitions": grow,
    "Metadata": named("topics"),
    "DescribeTopicPartitions": named("topics"),
    "DescribeConfigs": describe_configs,
    "AlterConfigs": alter_configs,
    "IncrementalAlterConfigs": alter_incrementally,
    "FindCoordinator": coordinator,
    "UpdateFeatures": features,
}
