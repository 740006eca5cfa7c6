"""Values in Protobuf: what they say, and that neither a schema nor a value makes reading them expensive."""

import json
import struct
from typing import Any

import pytest

for library in ("proto_schema_parser", "google.protobuf"):
    pytest.importorskip(library, reason=f"{library} is not installed: `make test-console` brings it")

from tallystick.schemas.protobuf import LARGEST, MOST_TEXT, Readable, parsed, read  # noqa: E402
from tallystick.schemas.wire import framed  # noqa: E402

PROTO3 = 'syntax = "proto3"; '
OWN = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "nobody/has/this.proto";  // for its options alone
message M {
  google.protobuf.Timestamp at = 1;
  google.protobuf.Duration took = 2 [(nobody.has) = {a: ["]", 1]}, deprecated /* since */ = true];
  google.protobuf.Struct more = 3;
  google.protobuf.Any any = 4;
  google.protobuf.Int32Value count = 5;
  google.protobuf.FieldMask mask = 6;
  double share = 0x7;
  Kind kind = 8;
  enum Kind { NEW = 0; OLD = -0x1; }
}
"""


def schema(text: str, **imported: str) -> Readable:
    found = parsed(text, imported)
    assert found is not None
    return found


def varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def part(field: int, data: bytes) -> bytes:
    """What has a length: a text, bytes, or a message."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def shown(readable: Readable, data: bytes, path: tuple[int, ...] = (0,)) -> Any:
    return json.loads(read(readable, framed(1, data, path)[5:], 1 << 20))


def test_what_stands_for_something_else_is_shown_as_that() -> None:
    own = schema(OWN)
    always = {"share": 0.0, "kind": "NEW"}
    inner = number(1, 5)
    named = part(1, b"x/google.protobuf.Int32Value") + part(2, inner)
    for data, said in [
        (part(1, number(1, 1_767_322_800) + number(2, 500_000_000)), {"at": "2026-01-02T03:00:00.5Z"}),
        (part(1, number(1, -62_135_596_800)), {"at": "0001-01-01T00:00:00Z"}),
        (part(1, number(1, 1 << 62)), {"at": {"seconds": 1 << 62, "nanos": 0}}),
        (part(2, number(1, -3) + number(2, -250_000_000)), {"took": "-3.25s"}),
        (part(2, number(1, 3) + number(2, -1)), {"took": {"seconds": 3, "nanos": -1}}),
        (part(3, part(1, part(1, b"a") + part(2, part(6, part(1, number(1, 0)))))), {"more": {"a": [None]}}),
        (part(4, named), {"any": {"@type": "x/google.protobuf.Int32Value", "value": 5}}),
        (part(4, part(1, b"x/M") + part(2, part(5, inner))), {"any": {"@type": "x/M", "count": 5, **always}}),
        (part(4, part(1, b"x/Nobody") + part(2, b"\1\2")), {"any": {"@type": "x/Nobody", "value": "0102"}}),
        (part(5, inner), {"count": 5}),
        (part(6, part(1, b"a.b") + part(1, b"c")), {"mask": "a.b,c"}),
        (b"\x39" + struct.pack("<d", float("inf")), {"share": "Infinity"}),
        (number(8, -1), {"kind": "OLD"}),
        (number(8, 7), {"kind": 7}),
    ]:
        assert shown(own, data) == always | said


def test_older_and_newer_syntaxes_are_read() -> None:
    older = schema(
        """syntax = "proto2"; package p;
        message A { required string s = 1; optional group Part = 2 { optional int32 z = 1; } extensions 100 to max; }
        extend A { optional int32 more = 100; }"""
    )
    data = part(1, b"x") + b"\x13" + number(1, 5) + b"\x14" + number(100, 7)
    assert shown(older, data) == {"s": "x", "part": {"z": 5}, "[p.more]": 7}
    newer = schema(
        """edition = "2023"; option features.field_presence = IMPLICIT;
        message M { int32 a = 1; int32 b = 2 [features.field_presence = EXPLICIT];
                    M m = 3 [features.message_encoding = DELIMITED]; }"""
    )
    assert shown(newer, b"\x1b" + number(1, 5) + b"\x1c") == {"a": 0, "m": {"a": 5}}


def test_the_message_is_found_by_its_path_and_names_from_inside_out() -> None:
    text = "package shop; message A { message B { message C { A a = 1; } string b = 1; } B.C c = 2; } message C {}"
    nested = schema(PROTO3 + text)
    assert shown(nested, part(2, part(1, b""))) == {"c": {"a": {}}}
    assert shown(nested, part(1, b"x"), (0, 0)) == {"b": "x"}
    assert shown(nested, b"", (1,)) == {}
    for path in ((2,), (0, 1), (0, 0, 1)):
        with pytest.raises(ValueError, match="no message"):
            shown(nested, b"", path)
    with pytest.raises(ValueError, match="no message"):
        read(nested, b"\2\1", 300)  # -1


def test_imports_are_read_whatever_imports_them_and_none_twice() -> None:
    both = schema(
        PROTO3 + 'import "a"; import "b"; message M { A a = 1; B b = 2; }',
        a=PROTO3 + 'import "b"; message A { B b = 1; }',
        b=PROTO3 + "message B { int32 n = 1; }",
    )
    assert shown(both, part(1, part(1, number(1, 3)))) == {"a": {"b": {"n": 3}}}
    with pytest.raises(ValueError, match="imports itself"):
        parsed(PROTO3 + 'import "a"; message M { int32 n = 1; }', {"a": PROTO3 + 'import "b";', "b": 'import "a";'})


@pytest.mark.parametrize(
    "text",
    [
        "message {", "message M { int32 a = ; }", "message M { Nobody a = 1; }", "message M {} message M {}",
        "message M { int32 a = 1; int32 b = 1; }", "message M { int32 a = 999999999999999999999; }",
        "message M { int32 a = " + "9" * 10_000 + "; }", "message M\0{}", 'import "\ud800";',
        "message M { " * 20_000, "".join(f"message M{n} {{ " for n in range(40)) + "} " * 40,
        ";" * 200_000,
    ],
)  # fmt: skip
def test_what_is_no_schema_or_too_long_a_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parsed(PROTO3 + text, {})


def test_schemas_beyond_any_size_are_not_looked_at() -> None:
    assert parsed(PROTO3 + " " * MOST_TEXT, {}) is None
    assert parsed(PROTO3, {"a": " " * (MOST_TEXT // 2), "b": " " * (MOST_TEXT // 2)}) is None


def test_a_few_bytes_that_would_stand_for_gigabytes_are_not_read() -> None:
    """Each of these two bytes is a message with room for a thousand texts."""
    fields = " ".join(f"string f{n} = {n};" for n in range(1, 1000))
    wide = schema(PROTO3 + f"message M {{ repeated W many = 1; }} message W {{ {fields} }}")
    assert 1000 < wide.most_bytes < 100_000
    text = read(wide, b"\0" + part(1, b"") * (wide.most_bytes // 2), 300)
    assert text.startswith('{"many":[{"f1":"","f2":""')
    with pytest.raises(ValueError, match="too large"):
        read(wide, b"\0" + part(1, b"") * (wide.most_bytes // 2 + 1), 300)


def test_values_that_are_no_values_of_a_schema_are_refused() -> None:
    chain = schema(PROTO3 + "message M { M m = 1; string s = 2; bytes b = 3; repeated int32 n = 4; }")
    deep = b""
    for _ in range(20_000):
        deep = part(1, deep) if len(deep) < 50_000 else deep
    for data in (b"\x0a\xff", b"\xff" * 30, part(2, b"\xff\xfe"), part(3, bytes(LARGEST)), deep):
        with pytest.raises(ValueError):
            read(chain, b"\0" + data, 300)
    for without_path in (b"", b"\xff" * 9, b"\2"):
        with pytest.raises(ValueError):
            read(chain, without_path, 300)
    packed = read(chain, b"\0" + part(4, b"\1" * (LARGEST - 10)), 300)
    assert packed.startswith('{"s":"","b":"","n":[1,1,1,') and len(packed) < 310


def test_what_is_within_itself_without_end_is_refused() -> None:
    own, inner = schema(OWN), b""
    for _ in range(200):
        inner = part(1, b"x/M") + part(2, part(4, inner))
    with pytest.raises(ValueError, match="too deep"):
        read(own, b"\0" + part(4, inner), 1 << 20)
