"""Bytes as people read them."""

import json

import pytest

from tallystick.console.reading.decoding import IN_A_ROW, IN_FULL, LARGEST_JSON, Kind, decoded


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


def test_json_is_laid_out_and_says_what_was_written() -> None:
    """Numbers as long as they are, names that are there twice, escapes: whoever looks for a fault looks for these."""
    data = b' {"id":12345678901234567890.10,"a":1,"a":[],"t":"\\u202e:,{\\"", "o":{"e":1E2,"l":[true,{}]}}'
    assert decoded(data).text == data.decode().strip().replace(", ", ",")
    lines = decoded(data, IN_FULL, indent=2).text.split("\n")
    assert lines == [
        "{",
        '  "id": 12345678901234567890.10,',
        '  "a": 1,',
        '  "a": [],',
        '  "t": "\\u202e:,{\\"",',
        '  "o": {',
        '    "e": 1E2,',
        '    "l": [',
        "      true,",
        "      {}",
        "    ]",
        "  }",
        "}",
    ]
    assert decoded(b"[NaN]").kind is Kind.TEXT


def test_what_is_deep_and_long_is_laid_out_no_further_than_it_is_shown() -> None:
    deep = b"[" * 400 + b"1," * 100_000 + b"1" + b"]" * 400
    found = decoded(deep, 1000, indent=2)
    assert (found.kind, len(found.text), found.is_cut) == (Kind.JSON, 1000, True)
    assert max(map(len, found.text.split("\n"))) < 100


def test_of_what_is_very_large_the_beginning_is_read() -> None:
    found = decoded(b"[" + b"1," * LARGEST_JSON + b"1]")
    assert (found.kind, found.is_cut, len(found.text)) == (Kind.TEXT, True, IN_A_ROW)
    found = decoded("grün".encode() * LARGEST_JSON)
    assert (found.kind, found.is_cut) == (Kind.TEXT, True)
