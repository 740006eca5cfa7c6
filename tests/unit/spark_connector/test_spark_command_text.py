"""What `tallystick spark` prints, and that it needs nothing of Spark."""

import json
import subprocess
import sys

from spark_connector.inspection import Position, QueryState, SinkState, Transaction
from spark_connector.progress import Marker
from tallystick.cli.spark import described, described_json, listed, partitions_of

NOW = 1_000_000_000
OPEN = Transaction("Ongoing", 41, 7, 300_000, NOW - 12_300, ["ledger-0", "ledger-1"])
BATCH = QueryState(
    "q1",
    17,
    NOW - 150_000,
    {"ledger": {"0": 1, "10": 4}},
    [Position("orders", 0, 5, 9), Position("orders", 1, 9, 9), Position("far", 0, 1, None)],
)


def test_a_sink_with_an_open_transaction() -> None:
    assert described(SinkState("s", OPEN, [BATCH], [Position("orders", 0, 5, 9)]), NOW) == [
        "sink         s",
        "transaction  Ongoing for 12 s, producer 41 epoch 7, timeout 300 s, in ledger-0, ledger-1",
        "query        q1",
        "  last batch 17, committed 2 min 30 s ago, 5 records in ledger",
        "  source     far: lag 0 in 1 partition; not on this cluster: far",
        "  source     orders: lag 4 in 2 partitions",
        "group        orders: lag 4 in 1 partition",
    ]


def test_a_sink_that_has_only_begun_and_one_that_expired() -> None:
    begun = Transaction("Empty", 41, 0, 60_000, -1, [])
    assert described(SinkState("s", begun, [], []), NOW)[1:] == [
        "transaction  none open (Empty, producer 41 epoch 0)",
        "query        no batch is committed yet",
    ]
    assert "does not know" in described(SinkState("s", None, [BATCH], []), NOW)[1]
    assert partitions_of(SinkState("s", begun, [], []), NOW) == ["s: no batch is committed yet"]


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    assert partitions_of(SinkState("s", None, [BATCH], []), NOW) == [
        "query q1: batch 17, committed 2 min 30 s ago",
        "  read     orders-0  up to 5 of 9, lag 4",
        "  read     orders-1  up to 9 of 9, lag 0",
        "  read     far-0  up to 1 not on this cluster",
        "  written  ledger-0  1 record",
        "  written  ledger-10  4 records",
    ]


def test_a_single_record_is_a_record() -> None:
    alone = QueryState("q", 0, NOW, {"ledger": {"0": 1}}, [])
    assert described(SinkState("s", None, [alone], []), NOW)[-1].endswith("1 record in ledger")


def test_json_has_ages_and_lags() -> None:
    (line,) = described_json(SinkState("s", OPEN, [BATCH], []), NOW)
    shown = json.loads(line)
    assert shown["transaction"]["open"] is True and shown["transaction"]["age_ms"] == 12_300
    assert (shown["queries"][0]["age_ms"], shown["queries"][0]["lag"]) == (150_000, 4)
    decided = Transaction("PrepareAbort", 1, 1, 1, NOW, [])
    assert decided.is_open and decided.is_decided and not OPEN.is_decided


def test_a_line_for_each_sink() -> None:
    sinks = {"a": [("q", Marker(3, written_ms=NOW - 7_200_000)), ("p", Marker(9))]}
    assert listed(sinks, NOW) == ["a  query q  batch 3  2 h ago"]


def test_the_commands_load_nothing_of_spark() -> None:
    """They are for any machine that has the package alone."""
    heavy = ("pyspark", "pyarrow", "numpy", "pandas")
    program = f"import sys, tallystick.cli.spark; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
