"""Real power cuts under load, the short form; `make power-cuts ROUNDS=20` is the long one (I49)."""

from pathlib import Path

import pytest

from tests.chaos.power_cuts.cut_disk import why_not
from tests.chaos.power_cuts.rounds import one_round

SECONDS = 3.0
ROUNDS_WITHOUT_SYNCS = 5


@pytest.mark.parametrize(
    ("durability", "file_system"), [("fsync", "ext4-writeback-nodelalloc"), ("page-cache", "ext4-ordered")]
)
def test_what_was_promised_outlives_power_cuts(durability: str, file_system: str, tmp_path: Path) -> None:
    """Nothing acknowledged is lost; with the page cache, each log is the beginning of what it was."""
    if reason := why_not(file_system):
        pytest.skip(reason)
    report = one_round(tmp_path / "round", 7, durability=durability, file_system=file_system, seconds=SECONDS)
    print(report)
    assert report.violations == [], f"the image and all logs are in {tmp_path}"
    assert report.faults["power cuts"]


def test_without_syncs_power_cuts_are_noticed(tmp_path: Path) -> None:
    """The control: a broker whose syncs do nothing loses what it acknowledged."""
    if reason := why_not("ext4-ordered"):
        pytest.skip(reason)
    for seed in range(ROUNDS_WITHOUT_SYNCS):
        report = one_round(
            tmp_path / str(seed), seed, durability="fsync", file_system="ext4-ordered", seconds=SECONDS, syncs=False
        )
        if report.violations:
            return
    raise AssertionError(f"nothing was missed in {ROUNDS_WITHOUT_SYNCS} rounds")
