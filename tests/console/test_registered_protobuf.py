"""Bytes of confluent-kafka's own serialiser for Protobuf, and a registry that has the schemas as text: read by the
console and by `tallystick consume`."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

for library in ("proto_schema_parser", "google.protobuf", "authlib", "cachetools", "httpx2"):
    pytest.importorskip(library, reason=f"{library} is not installed: `make test-console` brings it")

from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2  # noqa: E402
from google.protobuf.json_format import ParseDict  # noqa: E402
from google.protobuf.message_factory import GetMessageClass  # noqa: E402

from tallystick.cli.records.consume import consume  # noqa: E402
from tallystick.console.reading.decoding import Kind  # noqa: E402
from tallystick.console.reading.registered import decoded_with  # noqa: E402
from tallystick.schemas.registry import Registry  # noqa: E402
from tests.console.conftest import Shown  # noqa: E402
from tests.harness.confluent import make_topic, write  # noqa: E402
from tests.harness.schema_registry import FakeRegistry, serving  # noqa: E402

MONEY = """
syntax = "proto3";
package shop;

message Money {
  string currency = 1;
  int64 units = 2;
}
"""
ORDER = """
syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";
import "shop/money.proto";

message Order {
  int64 id = 1;
  Money total = 2;
  map<string, Money> parts = 3;
  google.protobuf.Timestamp at = 4;
  State state = 5;

  message Line {
    string sku = 1;
  }
  enum State {
    NEW = 0;
    PAID = 1;
  }
}
message Refund {
  Order of = 1;
}
"""


def field(name: str, number: int, type_: str, **more: Any) -> dict[str, Any]:
    kind = {"typeName": type_, "type": more.pop("kind", "TYPE_MESSAGE")} if type_.startswith(".") else {"type": type_}
    return {"name": name, "number": number, "label": "LABEL_OPTIONAL", **kind, **more}


MONEY_FILE = {
    "name": "shop/money.proto",
    "package": "shop",
    "syntax": "proto3",
    "messageType": [
        {"name": "Money", "field": [field("currency", 1, "TYPE_STRING"), field("units", 2, "TYPE_INT64")]},
    ],
}
ORDER_FILE = {
    "name": "shop/order.proto",
    "package": "shop",
    "syntax": "proto3",
    "dependency": ["google/protobuf/timestamp.proto", "shop/money.proto"],
    "messageType": [
        {
            "name": "Order",
            "field": [
                field("id", 1, "TYPE_INT64"),
                field("total", 2, ".shop.Money"),
                field("parts", 3, ".shop.Order.PartsEntry", label="LABEL_REPEATED"),
                field("at", 4, ".google.protobuf.Timestamp"),
                field("state", 5, ".shop.Order.State", kind="TYPE_ENUM"),
            ],
            "nestedType": [
                {
                    "name": "PartsEntry",
                    "field": [field("key", 1, "TYPE_STRING"), field("value", 2, ".shop.Money")],
                    "options": {"mapEntry": True},
                },
                {"name": "Line", "field": [field("sku", 1, "TYPE_STRING")]},
            ],
            "enumType": [{"name": "State", "value": [{"name": "NEW", "number": 0}, {"name": "PAID", "number": 1}]}],
        },
        {"name": "Refund", "field": [field("of", 1, ".shop.Order")]},
    ],
}
"""What `protoc` makes of the texts: it is not asked here."""


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serving() as made:
        made.texts |= {"shop/money.proto": MONEY, "shop/order.proto": ORDER}
        yield made


class Shop:
    """Messages, and bytes of them as a producer writes them."""

    def __init__(self, url: str) -> None:
        self._pool, self._client = descriptor_pool.DescriptorPool(), SchemaRegistryClient({"url": url})
        self._pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
        for file in (MONEY_FILE, ORDER_FILE):
            self._pool.Add(ParseDict(file, descriptor_pb2.FileDescriptorProto()))

    def written(self, name: str, said: dict[str, Any]) -> bytes:
        kind = GetMessageClass(self._pool.FindMessageTypeByName(name))
        serialise = ProtobufSerializer(kind, self._client)
        found = serialise(ParseDict(said, kind()), SerializationContext("orders", MessageField.VALUE))
        assert found is not None
        return bytes(found)


PAID = {
    "id": 42,
    "total": {"currency": "EUR", "units": 12},
    "parts": {"tax": {"currency": "EUR", "units": 2}},
    "at": "2026-01-02T03:04:05Z",
    "state": "PAID",
}


def test_the_console_reads_what_the_serialiser_wrote(registry: FakeRegistry) -> None:
    shop, own = Shop(registry.url), Registry(registry.url)
    order, line = shop.written("shop.Order", PAID | {"id": "42"}), shop.written("shop.Order.Line", {"sku": "a-1"})
    refund = shop.written("shop.Refund", {"of": PAID})
    assert order[5:6] == b"\0" and line[5:8] == b"\4\0\2" and refund[5:7] == b"\2\2"
    for _ in range(2):
        registry.asked.clear()
        asyncio.run(own.wait_until_known([order, line, refund, b"plain"]))
    assert registry.asked == []
    for data, said in ((order, PAID), (line, {"sku": "a-1"}), (refund, {"of": PAID})):
        found = decoded_with(own, data, 1000)
        assert (found.kind, json.loads(found.text)) == (Kind.PROTOBUF, said)
        torn = decoded_with(own, data[:-1], 1000)
        assert (torn.kind, torn.schema) == (Kind.BINARY, found.schema)
    assert decoded_with(own, order, 10).text == '{"id":42,"'


def test_what_cannot_be_compiled_is_bytes_and_its_number(registry: FakeRegistry) -> None:
    """A schema that imports what imports it, one that imports more than anybody has, and one that is none."""
    loop = [{"name": "a.proto", "subject": "a", "version": 1}]
    many = [{"name": f"{n}.proto", "subject": "a", "version": 1} for n in range(1000)]
    texts = ['syntax = "proto3"; import "a.proto"; message A { int32 n = 1; }', "message A {", "message " * 50_000]
    numbers = [registry.register("a", "PROTOBUF", texts[0], references=loop)]
    numbers += [registry.register("b", "PROTOBUF", texts[0], references=many)]
    numbers += [registry.register("c", "PROTOBUF", text) for text in texts[1:]]
    numbers += [registry.register("d", "PROTOBUF", texts[0], references=[{"name": 7}])]
    own, values = Registry(registry.url), [b"\0" + number.to_bytes(4, "big") + b"\0\x08\1" for number in numbers]
    asyncio.run(own.wait_until_known(values))
    assert [decoded_with(own, value, 300).kind for value in values] == [Kind.BINARY] * 5
    assert len(registry.asked) < 120


def test_consume_shows_and_looks_into_values_with_a_schema(registry: FakeRegistry, shown: Shown) -> None:
    shop, topic = Shop(registry.url), make_topic(shown.bootstrap, "registered-protobuf")
    write(shown.bootstrap, topic, [shop.written("shop.Order", PAID | {"id": number}) for number in (1, 2)] + [b"plain"])

    def told(*more: str, url: str = registry.url, status: int = 0) -> str:
        command = ["--bootstrap-server", shown.bootstrap, topic, "--schema-registry", url, *more]
        done = CliRunner().invoke(consume, command)
        assert done.exit_code == status, done.output
        return done.output

    first, second, plain = map(json.loads, told("--json").splitlines())
    assert (first["value"], plain["value"]) == (PAID | {"id": 1}, "plain")
    assert second["valueSchema"] == first["valueSchema"] and "valueSchema" not in plain
    found = told("--where", "value.total.units = 12 and value.id > 1", "--template", "{offset} {value}\\n")
    assert found.startswith('1 {"id":2,"total":{"currency":"EUR","units":12}') and found.count("\n") == 1
    assert "does not answer" in told(url="http://127.0.0.1:9", status=1)
    assert "it is without --schema-registry" in told("--format", "hex", status=2)
    assert "no address of a registry" in told(url="127.0.0.1:9", status=2)
