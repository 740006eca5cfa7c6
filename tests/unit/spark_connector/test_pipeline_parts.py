"""Parts of the pipelines that need no Spark: the plans, the faults, the batch log, stalls, the chart, the command."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from spark_connector.pipelines.settings import DELTA, PARQUET, Settings
from tests.harness import jars
from tests.pipelines import batch_log
from tests.pipelines.cdc.delta_log import batches_of, files_of
from tests.pipelines.chart import Picture, svg
from tests.pipelines.faults import Kind, plan, workers_below
from tests.pipelines.figures import percentile
from tests.pipelines.needs import table_format, why_not_delta
from tests.pipelines.stall import Sample, longest_stall_s
from tests.pipelines.transfers import plan as transfers
from tests.pipelines.windows import plan as windows


def test_a_seed_draws_the_same_transfers_and_numbered_aborts() -> None:
    drawn = list(transfers.transactions(3, 20_000))
    assert drawn == list(transfers.transactions(3, 20_000))
    assert drawn != list(transfers.transactions(4, 20_000))
    committed = [one.number for batch, void in drawn if not void for one in batch]
    aborted = [one.number for batch, void in drawn if void for one in batch]
    assert len(committed) == 20_000
    assert len({*committed, *aborted}) == len(committed) + len(aborted)
    assert drawn[0][1], "the first transaction is aborted, so that every run has one"


def test_one_click_in_ten_is_late_and_all_windows_close() -> None:
    clicks = [click for batch, void in windows.transactions(1, 20_000) if not void for click in batch]
    newest, late = 0, 0
    for click in clicks[:-1]:
        late += click.at_ms < newest - windows.STEP_MS
        newest = max(newest, click.at_ms)
    assert 0.08 < late / len(clicks) < 0.12
    assert clicks[-1].at_ms == windows.last_ms(1, 20_000) > newest + windows.LATEST_MS


def test_faults_are_drawn_from_the_seed_in_the_requested_number() -> None:
    struck = plan(5, list(Kind), 3)
    assert struck == plan(5, list(Kind), 3)
    assert sorted(strike.kind.value for strike in struck) == sorted([kind.value for kind in Kind] * 3)
    assert [strike.kind for strike in struck] != [strike.kind for strike in plan(6, list(Kind), 3)]
    assert all(strike.aimed for strike in plan(5, list(Kind), 3, always_aimed=True))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_workers_are_the_leaves_below_a_process() -> None:
    script = "import subprocess; child = subprocess.Popen(['sleep', '600']); print(child.pid, flush=True); child.wait()"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        assert workers_below(parent.pid) == [child]
        assert child in workers_below(os.getpid())
        assert parent.pid not in workers_below(os.getpid())
    finally:
        os.kill(child, signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    assert workers_below(parent.pid) == []


def test_the_batch_log_shows_finished_batches_and_their_end(tmp_path: Path) -> None:
    for number in (0, 9, 10):
        for folder in ("offsets", "commits"):
            (tmp_path / folder).mkdir(exist_ok=True)
        offsets = {"clicks": {"0": 10 * number, "1": 5}}
        lines = ["v1", json.dumps({"batchWatermarkMs": number}), json.dumps(offsets)]
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))
    for number in (0, 9):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    log = batch_log.batches(str(tmp_path))
    assert [(batch.number, batch.watermark_ms, batch.committed) for batch in log] == [
        (0, 0, True),
        (9, 9, True),
        (10, 10, False),
    ]
    last = batch_log.last_committed(str(tmp_path))
    assert last == log[1]
    assert batch_log.has_read(str(tmp_path), "clicks", {0: 89, 1: 4})
    assert not batch_log.has_read(str(tmp_path), "clicks", {0: 90, 1: 4})
    assert batch_log.last_committed(str(tmp_path / "nowhere")) is None


def test_a_stall_lasts_while_something_waits_and_nothing_becomes_visible() -> None:
    samples = [Sample(0, 10, 0), Sample(1, 20, 10), Sample(2, 30, 20), Sample(4, 40, 30), Sample(5, 50, 20)]
    assert longest_stall_s(samples) == 3
    assert longest_stall_s([Sample(0, 10, 0), Sample(9, 10, 0)]) == 0
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([], 0.5) == 0


def test_the_chart_shows_every_batch_and_fault() -> None:
    batches = [(1.0, 120.0), (2.0, 900.0), (3.5, 80.0)]
    drawn = svg(Picture("<transfers>", batches, [(0.5, 0.0), (2.0, 4000.0)], [(1.5, "JVM"), (2.5, "broker")]))
    tree = ElementTree.fromstring(drawn)
    names = [element.tag.rpartition("}")[2] for element in tree.iter()]
    assert names.count("circle") == len(batches)
    assert names.count("polygon") == 1
    assert sum(element.get("stroke-dasharray") is not None for element in tree.iter()) == 2
    assert "&lt;transfers&gt;" in drawn


def test_an_empty_run_can_be_drawn() -> None:
    assert ElementTree.fromstring(svg(Picture("nothing", [], [], []))) is not None


def test_settings_reach_the_driver_as_they_are() -> None:
    settings = Settings("127.0.0.1:1", "folder", ("cdc", "windows"), seed=3, scale=0.5, prefix="x-")
    assert Settings.from_json(settings.to_json()) == settings
    assert settings.topic("ledger") == "x-ledger"


def test_the_table_is_delta_where_its_jars_are_and_parquet_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A jar that is not what its checksum says is none."""
    monkeypatch.setattr(jars, "JARS", tmp_path)
    monkeypatch.setattr(jars, "expected", lambda jar_set: {"a.jar": hashlib.sha256(b"whole").hexdigest()})
    for content, table in ((None, PARQUET), (b"who", PARQUET), (b"whole", DELTA)):
        if content is not None:
            (tmp_path / DELTA).mkdir(exist_ok=True)
            (tmp_path / DELTA / "a.jar").write_bytes(content)
        assert table_format(DELTA) == table
        assert table_format(PARQUET) == PARQUET
        assert why_not_delta() == ("" if table == DELTA else "there are no jars in .jars/delta: run `make pipelines`")


def test_a_log_of_delta_is_read_without_delta(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    versions: list[list[dict[str, dict[str, object]]]] = [
        [{"metaData": {}}],
        [{"txn": {"appId": "q", "version": 0}}, {"add": {"path": "a"}}, {"add": {"path": "b%20c"}}],
        [{"txn": {"appId": "q", "version": 1}}, {"remove": {"path": "a"}}, {"add": {"path": "d"}}],
    ]
    for number, actions in enumerate(versions):
        (log / f"{number:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    assert files_of(tmp_path) == [tmp_path / "b c", tmp_path / "d"]
    assert batches_of(tmp_path) == [0, 1]
    (log / f"{1:020}.json").unlink()
    with pytest.raises(AssertionError, match="a version is missing"):
        files_of(tmp_path)


def test_whom_to_kill_is_checked() -> None:
    pytest.importorskip("pyarrow", reason="the pipelines need PyArrow, which is installed with PySpark, where Java is")
    from tests.pipelines.command import pipelines

    done = CliRunner().invoke(pipelines, ["transfers", "--struck", "everybody", "--bootstrap", "127.0.0.1:1"])
    assert done.exit_code == 2
    assert "jvm" in done.output
