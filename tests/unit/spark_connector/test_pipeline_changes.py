"""The changes of the cdc pipeline, and what is none: a reader with the registry's schema tells them apart."""

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

import pyarrow as pa

from spark_connector.formats.decoding import decodings
from spark_connector.source.settings import settings_of
from tests.harness.schema_registry import serving
from tests.pipelines.cdc.plan import Source, encode, register_schemas

CHANGE = pa.struct(
    [
        ("account", pa.int64()),
        ("version", pa.int64()),
        ("deleted", pa.bool_()),
        ("owner", pa.string()),
        ("balance", pa.int64()),
    ]
)


def test_changes_are_read_and_what_is_malformed_is_null() -> None:
    """However the numbers in the malformed values run on; the registry is asked once of each id."""
    with serving() as registry:
        register_schemas(registry, "changes")
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "changes", "valueFormat": "confluent-avro"}
        settings = settings_of(given | {"schema.registry.url": registry.url, "decodeErrors": "null"})
        (how,) = decodings(settings.formats, settings.topics)
        values = [value for values, _ in Source(7, 3000).transactions() for value in values]
        column = pa.array([encode(value) for value in values], pa.binary())
        found = how.typed(column, CHANGE, "changes-0").to_pylist()
        asked = registry.asked
    assert found == [None if isinstance(value, bytes) else value._asdict() for value in values]
    assert None in found
    assert len(asked) == len(set(asked)) == 3
