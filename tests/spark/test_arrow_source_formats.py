"""Values that a Schema Registry knows as typed columns: the wire format, Avro, JSON, Protobuf, and what goes wrong."""

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

from google.protobuf import descriptor_pool, message_factory, timestamp_pb2  # noqa: E402

from spark_connector.errors import BadOption  # noqa: E402
from spark_connector.formats import registry as registry_module  # noqa: E402
from spark_connector.formats.decoding import Decoding, decodings  # noqa: E402
from spark_connector.formats.errors import CannotDecode, NoSuchSchema, NoSuchType, RegistryUnreachable  # noqa: E402
from tallystick.schemas.wire import BadFrame, framed, message_path, opened  # noqa: E402
from tests.harness.confluent import make_topic, write  # noqa: E402
from tests.harness.schema_registry import FakeRegistry, serving  # noqa: E402
from tests.spark.queries import options  # noqa: E402


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serving() as served:
        yield served


def decoding(of: FakeRegistry, kind: str, **more: Any) -> Decoding:
    given = dict.fromkeys(
        (
            "keyFormat",
            "keySubject",
            "keyMessage",
            "valueSubject",
            "valueMessage",
            "schema.registry.basic.auth.user.info",
        )
    )
    named = {"valueFormat": f"confluent-{kind}", "schema.registry.url": of.url, "decodeErrors": "fail"}
    (made,) = decodings(given | named | more, ["t"])
    return made


def typed(how: Decoding, values: Sequence[bytes | None], kind: Any) -> list[Any]:
    return list(how.typed(pa.array(values, pa.binary()), kind, "t-0 [0, 9)").to_pylist())


@pytest.mark.parametrize("path", [(0,), (1,), (0, 3), (2, 0, 700)])
def test_frames_are_opened_as_they_were_made(path: tuple[int, ...]) -> None:
    assert opened(framed(258, b"abc")) == (258, b"abc")
    schema_id, payload = opened(framed(7, b"abc", path))
    assert (schema_id, *message_path(payload)) == (7, path, b"abc")
    assert framed(7, b"abc", (0,)) == b"\0\0\0\0\7\0abc"


@pytest.mark.parametrize("value", [b"", b"\0\0\0\1", b"{}    ", b"\1\0\0\0\1x"])
def test_what_has_no_frame_is_refused(value: bytes) -> None:
    with pytest.raises(BadFrame, match="serialiser"):
        opened(value)


ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "was", "type": ["null", "shop.Kind"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": ["int", "long"]}},
        {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
ORDER_DDL = (
    "STRUCT<`id`: BIGINT, `note`: STRING, `price`: DECIMAL(9, 2), `day`: DATE, `at`: TIMESTAMP, `kind`: STRING, "
    "`was`: STRING, `tags`: ARRAY<STRING>, `counts`: MAP<STRING, BIGINT>, `ref`: STRING>"
)
ORDER_TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("note", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("kind", pa.string()),
        ("was", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("ref", pa.string()),
    ]
)


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "note": None if number % 2 else f"note {number}",
        "price": Decimal(number).scaleb(-2),
        "day": date(2026, 1, 1 + number),
        "at": datetime(2026, 1, 1, 12, number, tzinfo=UTC),
        "kind": "NEW",
        "was": "OLD" if number % 2 else None,
        "tags": [f"tag {number}"] * number,
        "counts": {"a": number},
        "ref": "12345678-1234-5678-1234-567812345678",
    }


def avro(schema: Any, value: Any, schema_id: int) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return framed(schema_id, stream.getvalue())


def test_avro_records_become_rows(registry: FakeRegistry) -> None:
    number = registry.register("t-value", "AVRO", json.dumps(ORDER))
    how = decoding(registry, "avro")
    assert how.reader().ddl() == ORDER_DDL
    found = typed(how, [avro(ORDER, order(one), number) for one in range(4)] + [None], ORDER_TYPE)
    assert found == [order(one) | {"counts": [("a", one)]} for one in range(4)] + [None]


def test_older_avro_is_read_as_the_latest_schema(registry: FakeRegistry) -> None:
    """Resolution by Avro's rules: what is missing gets its default, numbers grow. One question per schema."""
    old = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "gone", "type": "string"}]}
    new = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}],
    }
    first, second = (registry.register("t-value", "AVRO", json.dumps(one)) for one in (old, new))
    how = decoding(registry, "avro")
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    values = [avro(old, {"a": 1, "gone": "x"}, first), avro(new, {"a": 2, "b": "y"}, second)] * 3
    assert typed(how, values, kind) == [{"a": 1, "b": "none"}, {"a": 2, "b": "y"}] * 3
    assert registry.asked == ["/subjects/t-value/versions/latest", f"/schemas/ids/{first}"]


def test_avro_types_of_other_subjects_are_found(registry: FakeRegistry) -> None:
    money = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    sale = {"type": "record", "name": "shop.Sale", "fields": [{"name": "paid", "type": "shop.Money"}]}
    registry.register("money", "AVRO", json.dumps(money))
    reference = {"name": "shop.Money", "subject": "money", "version": 1}
    number = registry.register("t-value", "AVRO", json.dumps(sale), references=[reference])
    how = decoding(registry, "avro")
    assert how.reader().ddl() == "STRUCT<`paid`: STRUCT<`cents`: BIGINT>>"
    whole = json.loads(json.dumps(sale).replace('"shop.Money"', json.dumps(money)))
    kind = pa.struct([("paid", pa.struct([("cents", pa.int64())]))])
    assert typed(how, [avro(whole, {"paid": {"cents": 5}}, number)], kind) == [{"paid": {"cents": 5}}]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (["int", "string"], "union"),
        ({"type": "long", "logicalType": "time-micros"}, "time-micros"),
        ({"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}, "contains itself"),
        ("nonsense", "not Avro"),
    ],
)
def test_avro_without_a_type_in_spark_is_refused(registry: FakeRegistry, schema: Any, sentence: str) -> None:
    registry.register("t-value", "AVRO", json.dumps(schema))
    with pytest.raises(NoSuchType, match=sentence):
        decoding(registry, "avro").reader().ddl()


def test_invalid_avro_ends_the_read_or_is_null(registry: FakeRegistry) -> None:
    number = registry.register("t-value", "AVRO", json.dumps(ORDER))
    values = [avro(ORDER, order(1), number), framed(number, b"\2"), b"plain"]
    with pytest.raises(CannotDecode, match=r"t-0 \[0, 9\), row 1.*decodeErrors"):
        typed(decoding(registry, "avro"), values, ORDER_TYPE)
    found = typed(decoding(registry, "avro", decodeErrors="null"), values, ORDER_TYPE)
    assert [one is None for one in found] == [False, True, True]


def test_json_is_shaped_to_what_its_schema_declares(registry: FakeRegistry) -> None:
    schema = {
        "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}},
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": ["string", "null"]},
            "ok": {"type": "boolean"},
            "at": {"$ref": "#/$defs/point"},
            "path": {"type": "array", "items": {"$ref": "#/$defs/point"}},
            "maybe": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "each": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    number = registry.register("t-value", "JSON", json.dumps(schema))
    how = decoding(registry, "json")
    point = "STRUCT<`x`: DOUBLE, `y`: DOUBLE>"
    assert how.reader().ddl() == (
        f"STRUCT<`id`: BIGINT, `name`: STRING, `ok`: BOOLEAN, `at`: {point}, `path`: ARRAY<{point}>, `maybe`: BIGINT, "
        "`either`: STRING, `each`: MAP<STRING, BIGINT>>"
    )
    points = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("at", points),
            ("path", pa.list_(points)),
            ("either", pa.string()),
            ("each", pa.map_(pa.string(), pa.int64())),
        ]
    )
    value = {"id": 5, "at": {"x": 1, "y": 2.5}, "path": [{"x": 0}], "either": 7, "each": {"a": 1}, "more": [1]}
    assert typed(how, [framed(number, json.dumps(value).encode())], kind) == [
        {
            "id": 5,
            "name": None,
            "at": {"x": 1.0, "y": 2.5},
            "path": [{"x": 0.0, "y": None}],
            "either": "7",
            "each": [("a", 1)],
        }
    ]


F = descriptor_pb2.FieldDescriptorProto


def proto_file() -> Any:
    """message Outer { message Inner { string name = 1; }  int64 id = 1; Inner inner = 2; repeated uint64 many = 3;
    Timestamp at = 4; Kind kind = 5; optional int32 maybe = 6; map<string, Inner> named = 7; bytes raw = 8; }
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="t.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NEW", number=0)
    kind.value.add(name="OLD", number=1)
    outer = file.message_type.add(name="Outer")
    outer.nested_type.add(name="Inner").field.add(name="name", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    entry = outer.nested_type.add(name="NamedEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    inner = {"type": F.TYPE_MESSAGE, "type_name": ".shop.Outer.Inner"}
    entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL, **inner)
    outer.field.add(name="id", number=1, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
    outer.field.add(name="inner", number=2, label=F.LABEL_OPTIONAL, **inner)
    outer.field.add(name="many", number=3, type=F.TYPE_UINT64, label=F.LABEL_REPEATED)
    time = {"type": F.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"}
    outer.field.add(name="at", number=4, label=F.LABEL_OPTIONAL, **time)
    outer.field.add(name="kind", number=5, type=F.TYPE_ENUM, type_name=".shop.Kind", label=F.LABEL_OPTIONAL)
    outer.oneof_decl.add(name="_maybe")
    outer.field.add(
        name="maybe", number=6, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL, oneof_index=0, proto3_optional=True
    )
    named = {"type": F.TYPE_MESSAGE, "type_name": ".shop.Outer.NamedEntry"}
    outer.field.add(name="named", number=7, label=F.LABEL_REPEATED, **named)
    outer.field.add(name="raw", number=8, type=F.TYPE_BYTES, label=F.LABEL_OPTIONAL)
    return file


def message_class(file: Any, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    timestamps = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamps)
    pool.Add(timestamps)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def serialized(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_protobuf_messages_become_rows(registry: FakeRegistry) -> None:
    file = proto_file()
    number = registry.register("t-value", "PROTOBUF", "syntax …", serialized=serialized(file))
    how = decoding(registry, "protobuf")
    inner = "STRUCT<`name`: STRING>"
    assert how.reader().ddl() == (
        f"STRUCT<`id`: BIGINT, `inner`: {inner}, `many`: ARRAY<DECIMAL(20, 0)>, `at`: TIMESTAMP, `kind`: STRING, "
        f"`maybe`: INT, `named`: MAP<STRING, {inner}>, `raw`: BINARY>"
    )
    inner_type = pa.struct([("name", pa.string())])
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("inner", inner_type),
            ("many", pa.list_(pa.decimal128(20, 0))),
            ("at", pa.timestamp("us", "UTC")),
            ("kind", pa.string()),
            ("maybe", pa.int32()),
            ("named", pa.map_(pa.string(), inner_type)),
            ("raw", pa.binary()),
        ]
    )
    outer = message_class(file, "shop.Outer")
    full = outer(
        id=5, inner={"name": "n"}, many=[1, 2**64 - 1], kind=1, maybe=0, named={"k": {"name": "v"}}, raw=b"\xff"
    )
    full.at.FromDatetime(datetime(2026, 1, 2, tzinfo=UTC))
    values = [framed(number, one.SerializeToString(), (0,)) for one in (full, outer())]
    assert typed(how, values, kind) == [
        {
            "id": 5,
            "inner": {"name": "n"},
            "many": [Decimal(1), Decimal(2**64 - 1)],
            "at": datetime(2026, 1, 2, tzinfo=UTC),
            "kind": "OLD",
            "maybe": 0,
            "named": [("k", {"name": "v"})],
            "raw": b"\xff",
        },
        {"id": 0, "inner": None, "many": [], "at": None, "kind": "NEW", "maybe": None, "named": [], "raw": b""},
    ]


def test_another_protobuf_message_is_named_and_compared(registry: FakeRegistry) -> None:
    file = proto_file()
    number = registry.register("t-value", "PROTOBUF", "syntax …", serialized=serialized(file))
    how = decoding(registry, "protobuf", valueMessage="shop.Outer.Inner")
    kind = pa.struct([("name", pa.string())])
    inner = message_class(file, "shop.Outer.Inner")(name="x").SerializeToString()
    assert typed(how, [framed(number, inner, (0, 0))], kind) == [{"name": "x"}]
    with pytest.raises(CannotDecode, match=r"a shop\.Outer, where shop\.Outer\.Inner is read"):
        typed(how, [framed(number, inner, (0,))], kind)
    with pytest.raises(NoSuchType, match=r"there are shop\.Outer"):
        decoding(registry, "protobuf", valueMessage="shop.Nothing").reader()


def test_a_registry_that_gives_protobuf_as_text_is_not_enough(registry: FakeRegistry) -> None:
    registry.register("t-value", "PROTOBUF", 'syntax = "proto3"; message M {}')
    with pytest.raises(NoSuchType, match="format=serialized"):
        decoding(registry, "protobuf").reader()


def test_what_a_registry_may_answer(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing request is retried; an unknown schema is an error; names and passwords are passed on."""
    monkeypatch.setattr(registry_module, "_PAUSE_S", 0)
    with pytest.raises(NoSuchSchema, match="knows no subject t-value"):
        decoding(registry, "avro")
    registry.register("t-value", "AVRO", '"string"')
    registry.failures = 2
    assert (
        decoding(registry, "avro", **{"schema.registry.basic.auth.user.info": "me:secret"}).reader().ddl() == "STRING"
    )
    assert registry.credentials[-1] == "Basic " + base64.b64encode(b"me:secret").decode()
    with pytest.raises(BadOption, match="subject t-value is AVRO"):
        decoding(registry, "json")
    registry.failures = 100
    with pytest.raises(RegistryUnreachable, match="503"):
        decoding(registry, "avro", valueSubject="other")


def test_several_topics_want_a_subject(registry: FakeRegistry) -> None:
    given = dict.fromkeys(
        (
            "keyFormat",
            "keySubject",
            "keyMessage",
            "valueSubject",
            "valueMessage",
            "schema.registry.basic.auth.user.info",
        )
    )
    given |= {"valueFormat": "confluent-avro", "schema.registry.url": registry.url, "decodeErrors": "fail"}
    with pytest.raises(BadOption, match="valueSubject"):
        decodings(given, ["a", "b"])
    with pytest.raises(BadOption, match=r"schema\.registry\.url"):
        decodings(given | {"schema.registry.url": None}, ["a"])


def test_typed_columns_in_spark(spark: Any, bootstrap: str, name: str, registry: FakeRegistry) -> None:
    """From the topic to SQL, in a batch and in a schema of the user's."""
    make_topic(bootstrap, name, 2)
    number = registry.register(f"{name}-value", "AVRO", json.dumps(ORDER))
    write(bootstrap, name, [avro(ORDER, order(one), number) for one in range(6)])
    given = {
        "subscribe": name,
        "startingOffsets": "earliest",
        "valueFormat": "confluent-avro",
        "schema.registry.url": registry.url,
    }
    frame = spark.read.format("kafka-arrow").options(**options(bootstrap, given)).load()
    found = frame.selectExpr("value.id", "value.price", "size(value.tags) tags", "topic").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(one, Decimal(one).scaleb(-2), one, name) for one in range(6)]
    narrow = spark.read.format("kafka-arrow").options(**options(bootstrap, given))
    ids = narrow.schema("value STRUCT<id: BIGINT>, offset BIGINT").load().selectExpr("sum(value.id)").collect()
    assert ids[0][0] == 15
