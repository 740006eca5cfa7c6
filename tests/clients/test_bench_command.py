"""`tallystick bench`: everything that it wrote was read, and its topic is gone."""

import json

from click.testing import CliRunner

from tallystick.cli.records.bench import bench
from tallystick.cli.topics import topics
from tallystick.records.load import Measured
from tests.clients.test_explain_command import said
from tests.harness.confluent import wait_until

SMALL = ("--records", "3000", "--record-size", "50", "--singles", "20", "--transactions", "5", "--partitions", "2")


def test_what_is_written_is_read_and_the_topic_is_gone(bootstrap: str) -> None:
    done = CliRunner().invoke(bench, ["--bootstrap-server", bootstrap, *SMALL, "--json", "--compression", "zstd"])
    assert done.exit_code == 0, done.output
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert {what: row["count"] for what, row in rows.items() if what != "consume"} == {
        "produce": 3000,
        "produce one by one": 20,
        "transactions one by one": 5,
    }
    assert 3020 <= rows["consume"]["count"] <= 3070, "the last markers may be on their way"
    assert all(row["perSecond"] > 0 for row in rows.values())
    assert rows["produce"]["p50Ms"] is None and rows["transactions one by one"]["p50Ms"] > 0
    wait_until(lambda: "tallystick-bench-" not in said(topics, bootstrap, "list"), "the topic is gone")
    shown = CliRunner().invoke(bench, ["--bootstrap-server", bootstrap, *SMALL])
    assert shown.exit_code == 0 and shown.stdout.split()[0] == "What" and "produce…" in shown.stderr


def test_quantiles_and_rates() -> None:
    measured = Measured("x", count=10, size_bytes=4_000_000, seconds=2.0, each_ms=[float(n) for n in range(100, 0, -1)])
    assert (measured.per_second, measured.megabytes_per_second) == (5.0, 2.0)
    assert [measured.quantile_ms(share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 51.0, 100.0, 100.0]
    assert Measured("nothing").quantile_ms(0.5) is None and Measured("nothing").per_second == 0.0
