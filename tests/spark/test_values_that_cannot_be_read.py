"""What becomes of values that their schema does not describe: an error that says which, or null beside what came."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

import pyarrow as pa

from spark_connector.formats.errors import CannotDecode
from tallystick.schemas.wire import framed
from tests.harness.confluent import make_topic, write
from tests.harness.schema_registry import FakeRegistry, serving
from tests.spark.queries import options
from tests.spark.test_arrow_source_formats import decoding, typed


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serving() as served:
        yield served


def test_one_value_that_its_schema_does_not_describe_stops_no_others(registry: FakeRegistry) -> None:
    """A number that is text, one that is too large, ids that nobody has and that are of another format."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    number = registry.register("t-value", "JSON", json.dumps(schema))
    kind = pa.struct([("id", pa.int64())])
    values = [framed(number, b'{"id": %s}' % one) for one in (b"1", b'"one"', b"%d" % 2**70, b"[2]", b"3")]
    with pytest.raises(CannotDecode, match=r"t-0 \[0, 9\), row 1"):
        typed(decoding(registry, "json"), values, kind)
    found = typed(decoding(registry, "json", decodeErrors="null"), values, kind)
    assert found == [{"id": 1}, None, None, None, {"id": 3}]
    of_avro = registry.register("a-value", "AVRO", '"long"')
    values = [framed(of_avro, b"\2"), *[framed(999, b"\2")] * 3, framed(number, b"\2"), framed(of_avro, b"\4")]
    with pytest.raises(CannotDecode, match=r"row 1: .*knows no schema 999"):
        typed(decoding(registry, "avro", valueSubject="a-value"), values, pa.int64())
    registry.asked.clear()
    found = typed(decoding(registry, "avro", valueSubject="a-value", decodeErrors="null"), values, pa.int64())
    assert found == [1, None, None, None, None, 2]
    assert registry.asked.count("/schemas/ids/999") == 1


def test_what_cannot_be_read_is_there_as_it_came(spark: Any, bootstrap: str, name: str, registry: FakeRegistry) -> None:
    """Beside a typed column that is null: a tombstone is null in both."""
    make_topic(bootstrap, name)
    number = registry.register(f"{name}-value", "AVRO", '"long"')
    values = [framed(number, b"\2"), framed(number + 7, b"\2"), b"plain"]
    write(bootstrap, name, values)
    reading = spark.read.format("kafka-arrow").options(
        **options(bootstrap, {"subscribe": name, "valueFormat": "confluent-avro", "decodeErrors": "null"})
    )
    frame = reading.option("schema.registry.url", registry.url).option("includeBytes", "true").load()
    found = frame.orderBy("offset").select("value", "valueBytes", "keyBytes").collect()
    assert [(row.value, bytes(row.valueBytes)) for row in found] == [
        (1, values[0]),
        (None, values[1]),
        (None, b"plain"),
    ]
    assert [bytes(row.keyBytes) for row in found] == [value[:8] for value in values]
