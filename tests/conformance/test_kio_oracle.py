"""kio as a witness: its tables and codec are generated from Kafka's schemas, one class per version."""

import datetime
import importlib
import io
import random
import uuid
from enum import Enum
from typing import Any

import pytest
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from protocol.codec import decode, encode_bytes
from protocol.schema import schema_of
from tests.conformance.samples import carried, label, messages, sample

TOO_YOUNG = {
    ("ApiVersions", 5),
    ("TxnOffsetCommit", 6),
    ("DeleteGroups", 3),
}
"""Versions of Kafka's trunk that kio 0.6 does not have yet."""
RENAMED = {"enable_2pc": "enable2_pc", "generation_id_or_member_epoch": "generation_id"}
"""Names that kio spells otherwise, or that Kafka changed since."""
SAMPLES = 8
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def is_too_young(pair: tuple[type, int]) -> bool:
    name = pair[0].__name__.removesuffix("Request").removesuffix("Response")
    return (name, pair[1]) in TOO_YOUNG


def witness(cls: type, version: int) -> Any:
    """The class of the same API, version and direction over there."""
    schema = schema_of(cls)
    module = importlib.import_module(f"kio.schema.{api_key_map[schema.api_key]}.v{version}.{schema.kind.value}")
    return getattr(module, cls.__name__)


def plain(value: Any) -> Any:
    """Values of the other side in our form."""
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, Enum):
        return value.value
    return value


def value_of(theirs: Any, name: str) -> Any:
    """kio drops the unit where it has a type for it, and uses null for the id of nothing."""
    for spelling in (name, RENAMED.get(name, name), name.removesuffix("_ms"), name.replace("_ms_", "_")):
        if hasattr(theirs, spelling):
            return getattr(theirs, spelling)
    raise AssertionError(f"{type(theirs).__name__} has no {name}")


def assert_same(ours: Any, theirs: Any, version: int, path: str) -> None:
    """Every field that the version carries has the same value under the same name."""
    for field, value in carried(ours, version):
        other = value_of(theirs, field.name)
        where = f"{path}.{field.name}"
        if isinstance(field.element, type) and value is not None:
            pairs = zip(value, other, strict=True) if field.is_array else [(value, other)]
            for mine, his in pairs:
                assert_same(mine, his, version, where)
        elif field.is_array and value is not None:
            assert value == [plain(item) for item in other], where
        else:
            assert value == plain(other), where


@pytest.mark.parametrize("pair", [pair for pair in messages() if not is_too_young(pair)], ids=label)
def test_kio_reads_what_we_write_and_writes_what_we_read(pair: tuple[type, int]) -> None:
    """Byte for byte, and name by name, for messages that fill every field of the version."""
    cls, version = pair
    oracle = witness(cls, version)
    read, write = entity_reader(oracle), entity_writer(oracle)
    rng = random.Random(label(pair))
    for _ in range(SAMPLES):
        ours = sample(cls, version, rng)
        written = encode_bytes(ours, version)
        theirs, size = read(written, 0)
        assert size == len(written)
        assert_same(ours, theirs, version, cls.__name__)
        out = io.BytesIO()
        write(out, theirs)
        assert out.getvalue() == written
        assert decode(cls, version, out.getvalue()) == (ours, size)


def test_the_versions_left_out_are_really_too_young() -> None:
    """When kio learns them, they are to be checked like the others."""
    for cls, version in filter(is_too_young, messages()):
        with pytest.raises(ImportError):
            witness(cls, version)
