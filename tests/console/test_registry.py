"""Values written with a schema registry: each schema is asked for once, and what it cannot read stays bytes."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tallystick.console.reading.decoding import Kind
from tallystick.console.reading.registered import decoded_with
from tallystick.schemas.registry import Registry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "by", "type": "string"}],
}
SCHEMAS: dict[int, object] = {
    7: {"schema": json.dumps(ORDER)},
    8: {"schema": "{}", "schemaType": "JSON"},
    9: {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
    10: {"schema": '{"type": "nothing known"}'},
    12: ["no", "schema"],
    13: {"schema": None},
    14: {"schema": "[" * 100_000},
}


@dataclass
class Serving:
    """A registry, and what it was asked."""

    url: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def serving() -> Iterator[Serving]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            found = SCHEMAS.get(int(self.path.rpartition("/")[2]))
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found or {"error_code": 40403}).encode())

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made = Serving(f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def framed(number: int, data: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + data


def avro(value: dict[str, object]) -> bytes:
    fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed: `make test-console` brings it")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, ORDER, value)
    return framed(7, out.getvalue())


def test_avro_is_read_with_its_schema_which_is_asked_for_once(serving: Serving) -> None:
    registry, value = Registry(serving.url), avro({"id": 42, "by": "alice"})
    for _ in range(2):
        asyncio.run(registry.wait_until_known([value, value, b"plain", None]))
    found = decoded_with(registry, value, 300)
    assert (found.kind, found.text, found.schema) == (Kind.AVRO, '{"id":42,"by":"alice"}', 7)
    assert serving.asked == ["/schemas/ids/7"]
    torn = decoded_with(registry, value[:-3], 300)
    assert (torn.kind, torn.schema) == (Kind.BINARY, 7)


def test_json_schema_is_read_and_of_others_the_number_is_told(serving: Serving) -> None:
    registry = Registry(serving.url)
    values = [framed(8, b'{"a": 1}'), framed(9, b"\x08\x01"), framed(10, b"?"), framed(11, b"?")]
    asyncio.run(registry.wait_until_known(values))
    found = [decoded_with(registry, value, 300) for value in values]
    assert [(one.kind, one.schema) for one in found] == [
        (Kind.JSON, 8),
        (Kind.BINARY, 9),
        (Kind.BINARY, None),
        (Kind.BINARY, None),
    ]
    assert found[0].text == '{"a":1}'


def test_a_registry_that_is_not_there_keeps_nobody_from_the_bytes() -> None:
    registry = Registry("http://127.0.0.1:9/")
    value = framed(7, b"?")
    asyncio.run(registry.wait_until_known([value]))
    assert decoded_with(registry, value, 300).kind is Kind.BINARY
    assert decoded_with(Registry(None), b"text", 300).kind is Kind.TEXT
    with pytest.raises(ValueError, match="no address of a registry"):
        Registry("file:///etc/passwd")


def test_whoever_writes_records_does_not_say_how_often_the_registry_is_asked(serving: Serving) -> None:
    registry = Registry(serving.url)
    asyncio.run(registry.wait_until_known([framed(number, b"?") for number in range(100, 400)]))
    assert 0 < len(serving.asked) <= 20


def test_a_registry_that_says_something_else_keeps_nobody_from_the_bytes(serving: Serving) -> None:
    registry = Registry(serving.url)
    values = [framed(number, b"\x02") for number in (12, 13, 14)]
    asyncio.run(registry.wait_until_known(values))
    assert [decoded_with(registry, value, 300).kind for value in values] == [Kind.BINARY] * 3
