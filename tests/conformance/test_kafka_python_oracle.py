"""kafka-python as a witness: it has Kafka's own tables and a codec of its own."""

import random
import uuid
from typing import Any

import pytest
from kafka.protocol import admin, consumer, metadata, producer, sasl

from protocol.codec import decode, encode_bytes
from protocol.messages.metadata import ApiVersionsResponse
from protocol.schema import Buffer
from tests.conformance.samples import carried, label, messages, sample

TOO_YOUNG = {
    ("ApiVersions", 5),
    ("TxnOffsetCommit", 6),
    ("DeleteGroups", 3),
}
"""Versions of Kafka's trunk that kafka-python 3.0 does not have yet."""
NOT_THERE = {f"{verb}DelegationToken" for verb in ("Create", "Renew", "Expire", "Describe")} | {
    *("UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter", "GetTelemetrySubscriptions", "PushTelemetry"),
    *("ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "StreamsGroupHeartbeat", "StreamsGroupDescribe"),
    *("ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge"),
    *(f"{verb}ShareGroupOffsets" for verb in ("Describe", "Alter", "Delete")),
    *(f"{verb}ShareGroupState" for verb in ("Initialize", "Read", "Write", "Delete")),
    "ReadShareGroupStateSummary",
}
"""APIs that it does not have; `test_kio_oracle` has them."""
RENAMED = {
    "enable_2pc": "enable2_pc",
    "generation_id_or_member_epoch": "generation_id",
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}
"""Names that kafka-python spells otherwise, or that Kafka changed since."""
SAMPLES = 8


def is_too_young(pair: tuple[type, int]) -> bool:
    name = pair[0].__name__.removesuffix("Request").removesuffix("Response")
    return (name, pair[1]) in TOO_YOUNG or name in NOT_THERE


def witness(cls: type) -> Any:
    """The class of the same name over there; None where there is none."""
    homes = (admin, consumer, metadata, producer, sasl)
    return next((getattr(home, cls.__name__) for home in homes if hasattr(home, cls.__name__)), None)


def plain(value: Any) -> Any:
    """Values of both sides in one form."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, Buffer):
        return bytes(value)
    if isinstance(value, set):  # A bit field, as the numbers of the bits.
        return sum(-(1 << bit) if bit == 31 else 1 << bit for bit in value)
    return value


def value_of(theirs: Any, name: str) -> Any:
    """A field by our name or by its own."""
    value = getattr(theirs, name) if hasattr(theirs, name) else getattr(theirs, RENAMED[name])
    if value is None and name.endswith("authorized_operations"):
        return -(1 << 31)  # "Not requested", which it shows as null.
    return value


def is_left_out(ours: Any, theirs: Any) -> bool:
    """kafka-python shows a tagged struct that was not written, for it is the default, as null."""
    return theirs is None and not isinstance(ours, list) and ours == type(ours)()


def assert_same(ours: Any, theirs: Any, version: int, path: str) -> None:
    """Every field that the version carries has the same value under the same name."""
    for field, value in carried(ours, version):
        other = value_of(theirs, field.name)
        where = f"{path}.{field.name}"
        if field.spec.tag is not None and is_left_out(value, other):
            continue
        if isinstance(field.element, type) and value is not None:
            pairs = zip(value, other, strict=True) if field.is_array else [(value, other)]
            for mine, his in pairs:
                assert_same(mine, his, version, where)
        elif field.is_array and value is not None:
            assert [plain(item) for item in value] == [plain(item) for item in other], where
        else:
            assert plain(value) == plain(other), where


@pytest.mark.parametrize("pair", [pair for pair in messages() if not is_too_young(pair)], ids=label)
def test_kafka_python_and_we_read_each_others_writes(pair: tuple[type, int]) -> None:
    """Byte for byte, and name by name, for messages that fill every field of the version."""
    cls, version = pair
    oracle = witness(cls)
    rng = random.Random(label(pair))
    for _ in range(SAMPLES):
        ours = sample(cls, version, rng)
        if isinstance(ours, ApiVersionsResponse):
            ours.error_code = 0  # With an error, it reads version 0 whatever it requested (KIP-511).
        written = encode_bytes(ours, version)
        theirs = oracle.decode(written, version=version)
        assert_same(ours, theirs, version, cls.__name__)
        theirs._header = None  # Its decoder leaves this unset, and its encoder looks.
        back = bytes(theirs.encode(version=version))
        assert back == written
        assert decode(cls, version, back) == (ours, len(back))


def test_the_versions_left_out_are_really_too_young() -> None:
    """When kafka-python learns them, they are to be checked like the others."""
    for cls, version in filter(is_too_young, messages()):
        found = witness(cls)
        assert found is None or version > found.max_version
