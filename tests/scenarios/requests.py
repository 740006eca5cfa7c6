"""From the words of a step to a message: what a client says, what it remembers, and what everybody says by default.

A field is looked for in the step (`epoch=3`), then in what the client remembers (its transactional id, producer id and
epoch, its group, member id and generation), then among the defaults below, then in the message's own table.
"""

import functools
import re
from dataclasses import dataclass, field
from typing import Any

from protocol.framing import REQUESTS
from protocol.schema import FieldSchema, Primitive, fields_of, schema_of
from tests.scenarios.language import split
from tests.scenarios.normalise import EPOCHS, Names

columns_of = functools.cache(fields_of)
"""The fields of a message or structure; reading them from the table takes its time."""

APIS = {cls.__name__.removesuffix("Request"): cls for cls in REQUESTS.values()}

VERSIONS = {
    "Fetch": 12,
    "ListOffsets": 8,
    "Metadata": 12,
    "OffsetCommit": 8,
    "OffsetFetch": 8,
    "FindCoordinator": 4,
    "JoinGroup": 9,
    "InitProducerId": 4,
    "AddPartitionsToTxn": 3,
    "AddOffsetsToTxn": 3,
    "WriteTxnMarkers": 1,
    "DescribeConfigs": 4,
    "ListTransactions": 1,
    "CreateTopics": 4,
    "DeleteTopics": 5,
    "DeleteGroups": 2,
    "DescribeGroups": 5,
    "ListGroups": 5,
}
"""What clients speak by default where the newest version would say less to a reader; others speak the newest that we
know."""
BY_TRANSACTION_VERSION = {
    0: {"Produce": 11, "EndTxn": 4, "TxnOffsetCommit": 4},
    2: {"Produce": 12, "EndTxn": 5, "TxnOffsetCommit": 5},
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "InitProducerId": {"transaction_timeout_ms": 60_000},
    "Produce": {"acks": -1, "timeout_ms": 30_000},
    "Fetch": {"max_wait_ms": 500, "min_bytes": 0},
    "ListOffsets": {"replica_id": -1},
    "OffsetForLeaderEpoch": {"replica_id": -1},
    "ConsumerGroupHeartbeat": {"member_id": "", "member_epoch": 0},
    "StreamsGroupHeartbeat": {"member_id": "", "member_epoch": 0, "endpoint_information_epoch": -1},
    "ShareGroupHeartbeat": {"member_id": "", "member_epoch": 0},
    "ShareFetch": {"member_id": "", "share_session_epoch": 0, "max_wait_ms": 500, "min_bytes": 1, "max_records": 500}
    | {"batch_size": 500},
    "ShareAcknowledge": {"member_id": "", "share_session_epoch": 0},
    "JoinGroup": {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"},
    "CreateTopics": {"timeout_ms": 30_000},
    "DeleteTopics": {"timeout_ms": 30_000},
    "CreatePartitions": {"timeout_ms": 30_000},
    "DeleteRecords": {"timeout_ms": 30_000},
    "Metadata": {"allow_auto_topic_creation": False},
}
SHORT = {
    "epoch": "producer_epoch",
    "timeout": "transaction_timeout_ms",
    "generation": "generation_id",
    "instance": "group_instance_id",
    "session": "share_session_epoch",
}
"""Short names of fields, where a message has the long one."""
UNIQUE = {
    "transactional_id",
    "group_id",
    "group_ids",
    "key",
    "coordinator_keys",
    "groups_names",
    "transactional_ids",
} | {
    "topic_names",
    "topic_name",
    "groups",
}
"""Fields that hold names; the run's suffix is put behind what stands there without quotes."""


class Literal(str):
    """A name in quotes: sent as it is."""


@dataclass(slots=True)
class Client:
    """What a client of a story remembers."""

    name: str
    remembered: dict[str, Any] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    """Partition → the sequence its next batch begins with."""

    def learn(self, api: str, request: Any, answer: Any) -> None:
        """Take up an identity that an answer gives."""
        if getattr(answer, "error_code", -1) != 0:
            if api == "JoinGroup" and answer.member_id:
                self.remembered["member_id"] = answer.member_id
            return
        if api == "InitProducerId" or (api == "EndTxn" and answer.producer_id >= 0):
            before = (self.remembered.get("producer_id"), self.remembered.get("producer_epoch"))
            now = (answer.producer_id, answer.producer_epoch)
            if now != before:
                self.sequences.clear()
            self.remembered["producer_id"], self.remembered["producer_epoch"] = now
            self.remembered["transactional_id"] = request.transactional_id
        if api == "ConsumerGroupHeartbeat":
            self.remembered |= {"group_id": request.group_id, "member_id": answer.member_id}
            self.remembered["member_epoch"] = self.remembered["generation_id"] = answer.member_epoch
            if request.instance_id is not None:
                self.remembered["instance_id"] = request.instance_id
        if api in ("StreamsGroupHeartbeat", "ShareGroupHeartbeat"):
            self.remembered |= {"group_id": request.group_id, "member_id": answer.member_id}
            self.remembered["member_epoch"] = self.remembered["generation_id"] = answer.member_epoch
        if api in ("ShareFetch", "ShareAcknowledge"):
            self.remembered |= {"group_id": request.group_id, "member_id": request.member_id}
            self.remembered["share_session_epoch"] = request.share_session_epoch + 1
        if api == "JoinGroup":
            self.remembered |= {"group_id": request.group_id, "member_id": answer.member_id}
            self.remembered["generation_id"] = answer.generation_id
            self.remembered["protocol_name"] = answer.protocol_name
            self.remembered["protocol_type"] = request.protocol_type


def value_of(names: Names, word: str) -> Any:
    """What a word of a step means."""
    if word in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[word]
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    if word == "E" or re.fullmatch(r"E[+-]\d+", word):
        return names.base_epoch + int(word[1:] or 0)
    if found := re.fullmatch(r"T\+(\d+)", word):
        return names.zero_ms + int(found[1])
    if found := re.fullmatch(r"(P\d+)\+(\d+)", word):
        return int(str(names.meant_by(found[1]))) + int(found[2])
    if (meant := names.meant_by(word)) is not None:
        return meant
    if word.startswith('"'):
        names.literals.add(word[1:-1])
        return Literal(word[1:-1])
    if word.startswith("["):
        return [value_of(names, part) for part in split(word[1:-1])]
    if word.startswith("{"):
        parts = (part.partition("=") for part in split(word[1:-1]))
        return {name: value_of(names, text) for name, _, text in parts}
    names.literals.add(word)
    return word


def writes_structures_out(value: Any) -> bool:
    """Whether a step gives a list of structures field by field: `topics=[{name=t} {name=u}]`."""
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def version_of(api: str, clients: int) -> int:
    fixed = BY_TRANSACTION_VERSION[clients].get(api, VERSIONS.get(api))
    return schema_of(APIS[api]).versions[-1] if fixed is None else fixed


def build(api: str, version: int, said: dict[str, Any], client: Client, names: Names) -> Any:
    """The request. `said` may hold short names; fields of the client's memory fill what is not said."""
    values: dict[str, Any] = {}
    cls = APIS[api]
    known = {spec.name for spec in columns_of(cls)}
    said = {long_name(name, known): value for name, value in said.items()}
    unknown = [name for name in said if not {name, f"v3_and_below_{name}"} & known]
    assert not unknown, f"{api} has no field {unknown}"
    for spec in columns_of(cls):
        plain = spec.name.removeprefix("v3_and_below_")
        memory = {"generation_id_or_member_epoch": "generation_id"}.get(plain, plain)
        if plain in said:
            values[spec.name] = _converted(spec, said[plain], version, names)
        elif memory in client.remembered and spec.in_version(version) and not _asks_anew(api, memory):
            values[spec.name] = client.remembered[memory]
        else:
            default = DEFAULTS.get(api, {}).get(spec.name, spec.default)
            values[spec.name] = list(default) if isinstance(default, list) else default
    return cls(**values)


def _asks_anew(api: str, name: str) -> bool:
    """An InitProducerId names the current identity only if the step does (KIP-360)."""
    return api == "InitProducerId" and name.startswith("producer_")


def long_name(name: str, known: set[str]) -> str:
    longer = SHORT.get(name, name)
    if longer == "generation_id" and longer not in known:
        longer = "generation_id_or_member_epoch"
    return longer if longer in known or f"v3_and_below_{longer}" in known else name


def _converted(spec: FieldSchema, value: Any, version: int, names: Names) -> Any:
    if value is None:
        return None
    if spec.is_array:
        return [_element(spec, item, version, names) for item in value]
    return _element(spec, value, version, names)


def _element(spec: FieldSchema, value: Any, version: int, names: Names) -> Any:
    if not isinstance(spec.element, Primitive):
        return _structure(spec.element, value, version, names)
    plain = spec.name.removeprefix("v3_and_below_")
    if plain in UNIQUE and isinstance(value, str) and not isinstance(value, Literal):
        return names.unique(value)
    if spec.element.name == "bytes" and isinstance(value, str):
        return value.encode()
    if spec.element.name == "uuid":
        return bytes(16) if value == 0 else names.id_of_topic(value)
    if spec.element.name == "float64":
        return float(value)
    return str(value) if isinstance(value, Literal) else value


def _structure(cls: type, said: dict[str, Any], version: int, names: Names) -> Any:
    values: dict[str, Any] = {}
    specs = columns_of(cls)
    known = {spec.name for spec in specs}
    said = {long_name(name, known): value for name, value in said.items()}
    unknown = said.keys() - known
    assert not unknown, f"{cls.__name__} has no field {unknown}"
    topic = said.get("topic", said.get("name")) if "Config" not in cls.__name__ else None
    for spec in specs:
        is_topic = spec.name == "topic" or (spec.name == "name" and holds_topic(cls))
        if spec.name in said:
            value = said[spec.name]
            if is_topic and isinstance(value, str) and not isinstance(value, Literal):
                value = names.unique(value)
            values[spec.name] = _converted(spec, value, version, names)
        elif spec.name == "topic_id" and topic is not None and _by_id(cls, version):
            values[spec.name] = names.id_of_topic(topic)
        else:
            values[spec.name] = list(spec.default) if isinstance(spec.default, list) else spec.default
    for name in EPOCHS & known & said.keys():
        assert isinstance(values[name], int)
    return cls(**values)


def holds_topic(cls: type) -> bool:
    return ("Topic" in cls.__name__ and "Config" not in cls.__name__) or cls.__name__ == "TopicRequest"


def _by_id(cls: type, version: int) -> bool:
    """Whether this version of a structure names its topic by id alone."""
    carried = {spec.name for spec in columns_of(cls) if spec.in_version(version)}
    return "topic_id" in carried and not carried & {"name", "topic"}
