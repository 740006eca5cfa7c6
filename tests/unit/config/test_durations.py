"""How long, in words."""

from datetime import timedelta

import pytest

from tallystick.cli.durations import ago, in_words
from tallystick.durations import in_milliseconds


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("15m", 900_000),
        ("1h30m", 5_400_000),
        ("250ms", 250),
        ("2d 1s", 172_801_000),
        (1.5, 1500),
        (timedelta(hours=1), 3_600_000),
    ],
)
def test_read(written: "str | float | timedelta", milliseconds: int) -> None:
    assert in_milliseconds(written) == milliseconds


@pytest.mark.parametrize("written", ["", "soon", "15", "15 minutes", "m15", "-1s", "1s!"])
def test_refused(written: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        in_milliseconds(written)


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (61_500, "1 min 1 s"),
        (60_000, "1 min"),
        (3_601_000, "1 h"),
        (3_660_000, "1 h 1 min"),
        (90_061_000, "1 d 1 h"),
        (-5, "0 ms"),
    ],
)
def test_said(milliseconds: int, said: str) -> None:
    assert in_words(milliseconds) == said


def test_ago() -> None:
    assert (ago(2000), ago(-1)) == ("2 s ago", "just now")
