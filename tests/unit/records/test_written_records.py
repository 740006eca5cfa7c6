"""Records out of lines, records as they are shown, and where reading begins."""

import json

import pytest

from protocol.records.record import NewRecord, Record
from tallystick.cli.records.rendering import Manner, as_json, renderer
from tallystick.records.fates import Fate
from tallystick.records.input_lines import BadLine, Lines, Parsed
from tallystick.records.reader import Seen
from tallystick.records.spots import BEGINNING, END, Kind, Spot, read_spot

ESCAPE = b"\x1b]0;owned\x07\nline"


def seen(value: bytes | None, key: bytes | None = None, fate: Fate = Fate.NONE, marker: str = "") -> Seen:
    headers = (("h\x1b", b"1"), ("n", None))
    return Seen(("t", 1), Record(7, 1_000, key, value, headers), fate, 9, marker)


@pytest.mark.parametrize(
    ("lines", "line", "record"),
    [
        (Lines(), b"a:b", NewRecord(b"a:b", None, 5)),
        (Lines(key_separator=b":"), b"a:b:c", NewRecord(b"b:c", b"a", 5)),
        (Lines(key_separator=b":", null_marker=b"-"), b"-:-", NewRecord(None, None, 5)),
        (Lines(with_headers=True), b"a:1,b:\tv", NewRecord(b"v", None, 5, (("a", b"1"), ("b", b"")))),
        (Lines(with_headers=True, headers=(("z", b"0"),)), b"\t\xff", NewRecord(b"\xff", None, 5, (("z", b"0"),))),
        (Lines(as_json=True), b'{"value": {"a": [1]}, "timestamp": 3}', NewRecord(b'{"a":[1]}', None, 3)),
        (Lines(as_json=True), b'{"keyBase64": "/w==", "value": "\\u00e9"}', NewRecord("é".encode(), b"\xff", 5)),
        (Lines(as_json=True), b"{}", NewRecord(None, None, 5)),
    ],
)
def test_lines_that_are_records(lines: Lines, line: bytes, record: NewRecord) -> None:
    assert lines.parsed(line, 5) == Parsed(record)


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (Lines(key_separator=b"::"), b"a:b", "no '::' behind the key"),
        (Lines(with_headers=True), b"a:1", "no tab"),
        (Lines(with_headers=True), b"a\tb", "no header NAME:VALUE"),
        (Lines(with_headers=True), b"\xff:1\tb", "no header NAME:VALUE"),
        (Lines(as_json=True), b"x", "no JSON:"),
        (Lines(as_json=True), b"[" * 100_000, "no JSON"),
        (Lines(as_json=True), b"[]", "no JSON object"),
        (Lines(as_json=True), b'{"value": "x", "control": "ABORT"}', "marker of a transaction"),
        (Lines(as_json=True), b'{"partition": true}', "partition is no such number"),
        (Lines(as_json=True), b'{"timestamp": 9223372036854775808}', "timestamp is no such number"),
        (Lines(as_json=True), b'{"headers": {}}', "headers are no list"),
        (Lines(as_json=True), b'{"headers": [{"value": "x"}]}', "has no name"),
        (Lines(as_json=True), b'{"valueBase64": "x"}', "no base64"),
        (Lines(as_json=True), b'{"value": "\\ud800"}', "half a character"),
    ],
)
def test_lines_that_are_none(lines: Lines, line: bytes, said: str) -> None:
    with pytest.raises(BadLine) as refused:
        lines.parsed(line, 5)
    assert said in str(refused.value)


def test_json_comes_back_as_it_was() -> None:
    for value, key in ((b"v", None), (None, b"\xff\xfe"), (ESCAPE, b""), ('"é'.encode(), b"k")):
        shown = renderer(Manner("json", is_terminal=True))(seen(value, key))
        assert shown.isascii() and b"\x1b" not in shown and shown.count(b"\n") == 1
        parsed = Lines(as_json=True).parsed(shown, 0)
        assert parsed == Parsed(NewRecord(value, key, 1_000, seen(None).record.headers), 1)
    marker = as_json(seen(b"", fate=Fate.CONTROL, marker="ABORT"))
    assert (marker["transaction"], marker["control"], marker["producerId"]) == ("control", "ABORT", 9)


@pytest.mark.parametrize("style", ["text", "hex", "template"])
def test_nothing_reaches_a_terminal_that_it_obeys(style: str) -> None:
    template = "{key}|{value}|{headers}\\n"
    shown = renderer(Manner(style, template, ":" if style == "text" else None, is_terminal=True))(seen(ESCAPE, ESCAPE))
    assert all(one >= 32 or one == 10 for one in shown)
    assert shown.endswith(b"\n")


def test_a_pipe_gets_what_was_produced() -> None:
    assert renderer(Manner("text"))(seen(b"\xff" + ESCAPE)) == b"\xff" + ESCAPE + b"\n"
    assert renderer(Manner("text", key_separator="="))(seen(b"v", b"k")) == b"k=v\n"
    whole = r"{topic}-{partition}@{offset} {timestamp} {time} {transaction} {producer} {{}}\t\\"
    shown = renderer(Manner("template", whole))(seen(b"v", fate=Fate.OPEN))
    assert shown == b"t-1@7 1000 1970-01-01T00:00:01.000+00:00 open 9 {}\t\\"


def test_what_is_given_need_not_be_utf_8() -> None:
    assert renderer(Manner("text", key_separator="\udcff"))(seen(b"v", b"k")) == b"k\xffv\n"
    assert renderer(Manner("template", template="{key}\udcff{value}\udcfe"))(seen(b"v", b"k")) == b"k\xffv\xfe"


def test_colours_are_for_terminals() -> None:
    for fate, colour in ((Fate.ABORTED, b"\x1b[31m"), (Fate.COMMITTED, b"\x1b[32m"), (Fate.OPEN, b"\x1b[33m")):
        coloured = renderer(Manner("text", with_fates=True, is_terminal=True))(seen(b"v", fate=fate))
        assert coloured.startswith(colour + fate.value.encode()) and coloured.endswith(b"v\x1b[0m\n")
        plain = renderer(Manner("text", with_fates=True))(seen(b"v", fate=fate))
        assert plain == f"{fate.value:9}  v\n".encode()
    marker = renderer(Manner("text", with_fates=True))(seen(b"", fate=Fate.CONTROL, marker="COMMIT"))
    assert marker == b"control    COMMIT of producer id 9\n"


@pytest.mark.parametrize("template", ["{price}", "{value", "}", "\\x", "{value.__class__}", "{}"])
def test_templates_that_are_none(template: str) -> None:
    with pytest.raises(ValueError, match="no field of a template"):
        renderer(Manner("template", template))


def test_hexadecimal() -> None:
    first, *rest = (
        renderer(Manner("hex", with_fates=True))(seen(bytes(range(18)), None, Fate.OPEN)).decode().split("\n")
    )
    assert first == "t-1 offset 7 timestamp 1000  open"
    assert rest[0] == "  key: null" and rest[1] == "  value: 18 bytes"
    assert rest[2].split("  ")[2] == "00000000" and rest[3].strip().startswith("00000010  10 11")
    assert json.loads(json.dumps(rest))[4] == r"  header h\x1b: 1 bytes"


def test_spots() -> None:
    now = 10_000_000
    assert (read_spot("beginning", now), read_spot("end", now)) == (BEGINNING, END)
    assert read_spot("17", now) == Spot(Kind.OFFSET, 17) and read_spot("-17", now) == Spot(Kind.BEFORE_END, 17)
    assert read_spot("-5m", now) == Spot(Kind.TIME, now - 300_000) and read_spot("-9h", now) == Spot(Kind.TIME, 0)
    assert read_spot("@99", now) == Spot(Kind.TIME, 99)
    written = ("1970-01-01T00:00:02", "1970-01-01T02:00:02+02:00", "1970-01-01 00:00:02Z")
    assert {read_spot(one, now) for one in written} == {Spot(Kind.TIME, 2000)}
    for wrong in ("", "soon", "-", "-5x", "9" * 19, "1e3", "²"):
        with pytest.raises(ValueError, match=r"no |larger"):
            read_spot(wrong, now)
