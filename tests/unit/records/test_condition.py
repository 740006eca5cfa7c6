"""Which records `--where` wants."""

import pytest

from protocol.records.record import Record
from tallystick.records.condition import BadCondition, read_condition
from tallystick.records.fates import Fate
from tallystick.records.reader import Seen

ORDER = b'{"total": 12.5, "paid": true, "note": null, "lines": [{"sku": "a"}, {"sku": "b"}], "tags": ["x", "y"]}'
SEEN = Seen(
    ("orders", 3),
    Record(41, 1_772_366_400_000, "clé".encode(), ORDER, (("kind", b"old"), ("kind", b"test"), ("none", None))),
    Fate.ABORTED,
)
NOTHING = Seen(("orders", 3), Record(0, -1, None, b"\xff{", ()), Fate.NONE)


@pytest.mark.parametrize(
    "written",
    [
        "offset = 41",
        "offset != 40 and partition = 3 and topic = 'orders'",
        "key = 'clé'",
        'key ~ "^cl.$"',
        r"value ~ '\d+\.5'",
        "value contains 'total'",
        "value.total > 12 and value.total <= 12.5",
        "value.paid = true and value.note = null and value.gone = null",
        "value.lines[1].sku = 'b'",
        "value.tags contains 'y' and not value.tags contains 'z'",
        "header.kind = 'test' and header.none = null and header.other = null",
        "transaction = 'aborted'",
        "timestamp >= '2026-03-01T12:00' and timestamp < '2026-03-01T13:00+01:00' or offset = 41",
        "timestamp = 1772366400000",
        "not (offset < 41 or offset > 41)",
        "offset = 1 or offset = 41 and partition = 3",
        "not offset = '41' and not offset < 'x' and offset != true and not value.total < 'x'",
        "41 = offset and -1 < partition",
        r"'it\'s' = "
        '"it\'s"',
    ],
)
def test_what_holds(written: str) -> None:
    assert read_condition(written)(SEEN), written
    assert not read_condition(f"not ({written})")(SEEN)


def test_what_is_no_text_and_no_json_is_not_taken_for_it() -> None:
    for written in ("key = null", "value.total = null", "value ~ '\\{'", "header.kind = null"):
        assert read_condition(written)(NOTHING), written
    deep = Seen(("t", 0), Record(0, 0, None, b"[" * 100_000, ()), Fate.NONE)
    assert read_condition("value.a = null")(deep)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "there is the end"),
        ("offset", "a comparison"),
        ("offset 'contains' 1", "a comparison"),
        ("offset = ", "a value"),
        ("offset = 1 1", "'and' or 'or'"),
        ("offset = 1 or", "a field"),
        ("(offset = 1", "')'"),
        ("price = 1", "there is price"),
        ("header = 1", "there is header"),
        ("and = 1", "there is and"),
        ("__import__('os') = 1", "there is __import__"),
        ("value ~ value", "a regular expression in quotes"),
        ("value ~ '('", "no regular expression of RE2"),
        ("timestamp > 'soon'", "no date and time"),
        ("offset = 1;", "cannot be read from 11 on"),
        ("offset = " + "1" * 5_000, "4300 digits"),
        ("value[" + "1" * 5_000 + "] = 1", "4300 digits"),
        ("value ~ '\udcff'", "surrogates not allowed"),
        ("value = 'open", "cannot be read from 8 on"),
        ("(" * 200 + "offset = 1" + ")" * 200, "nested too deeply"),
        ("not " * 200 + "offset = 1", "nested too deeply"),
    ],
)
def test_what_is_none(written: str, said: str) -> None:
    with pytest.raises(BadCondition) as refused:
        read_condition(written)
    assert said in str(refused.value)
