"""Bytes as people read them."""

import json

import pytest

from tallystick.console.reading.decoding import IN_A_ROW, Kind, decoded


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, Kind.NULL, "null"),
        (b"", Kind.EMPTY, "empty"),
        (b"plain words\n", Kind.TEXT, "plain words\n"),
        ("grün".encode(), Kind.TEXT, "grün"),
        (b'{"b": 1, "a": [2]}', Kind.JSON, '{"b":1,"a":[2]}'),
        (b"{no json", Kind.TEXT, "{no json"),
        (b"[" * 100_000, Kind.TEXT, "[" * IN_A_ROW),
        (b"\x00\x01\xff", Kind.BINARY, "00 01 ff"),
        (b"with a \x1b[31m colour", Kind.BINARY, b"with a \x1b[31m colour".hex(" ")),
        (b"\xc3\x28", Kind.BINARY, "c3 28"),
    ],
)
def test_what_bytes_seem_to_be(data: bytes | None, kind: Kind, text: str) -> None:
    found = decoded(data)
    assert (found.kind, found.text) == (kind, text)
    assert found.size_bytes == len(data or b"")


def test_what_is_long_is_cut_and_says_so() -> None:
    for data in (b"x" * 1000, b"\xff" * 1000, json.dumps(["x" * 1000]).encode()):
        found = decoded(data, most=60)
        assert found.is_cut and len(found.text) <= 60 and found.size_bytes == len(data)
    assert not decoded(b"x" * 60, most=60).is_cut
