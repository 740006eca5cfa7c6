"""Values in Avro stand for no more than there is of them, whatever their schema says."""

import json

import pytest

from tallystick.schemas.avro import parsed, read

pytest.importorskip("fastavro", reason="fastavro is not installed: `make test-console` brings it")

LIST = {"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "size", "type": "int"}, {"name": "below", "type": {"type": "array", "items": "Tree"}}],
}
ENDLESS = {"type": "record", "name": "Endless", "fields": [{"name": "again", "type": "Endless"}]}
NOTHING = {"type": "record", "name": "Nothing", "fields": []}


def doubled(times: int) -> object:
    made: object = "null"
    for number in range(times):
        again = f"R{number - 1}" if number else "null"
        made = {
            "type": "record",
            "name": f"R{number}",
            "fields": [{"name": "a", "type": made}, {"name": "b", "type": again}],
        }
    return made


def test_schemas_that_have_themselves_in_them_are_read_as_far_as_the_stack_goes() -> None:
    chain, tree = parsed(json.dumps(LIST)), parsed(json.dumps(TREE))
    assert chain is not None and tree is not None
    assert read(chain, b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    assert read(tree, b"\x02\x02\x04\x00\x00") == {"size": 1, "below": [{"size": 2, "below": []}]}
    with pytest.raises(ValueError, match="too large"):
        read(chain, b"\x02" * 1_000_000 + b"\x00")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": NOTHING},
        {"type": "array", "items": {"type": "fixed", "name": "None", "size": 0}},
        {"type": "map", "values": doubled(9)},
        ENDLESS,
        doubled(15),
    ],
)
def test_a_few_bytes_that_would_stand_for_any_number_of_values_are_not_read(schema: object) -> None:
    assert parsed(json.dumps(schema)) is None


def test_a_schema_deeper_than_anybody_writes_is_not_read() -> None:
    deep = '{"type":"array","items":' * 150 + '"int"' + "}" * 150
    assert parsed(deep) is None
    for text in ("1", "null", "{}", '"nope"', "{", "[" * 100_000):
        with pytest.raises(ValueError):
            parsed(text)


def test_what_is_beyond_the_calendar_is_not_of_the_schema() -> None:
    time = parsed('{"type": "long", "logicalType": "timestamp-millis"}')
    assert time is not None
    with pytest.raises(ValueError, match="not of this schema"):
        read(time, b"\xfe" + b"\xff" * 7 + b"\x7f")
