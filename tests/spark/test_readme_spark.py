"""The README's lines for Spark run as they stand; only the address and the checkpoint's folder are ours."""

import re
from typing import Any

from tests.harness.confluent import admin, make_topic, read_all, values_of, wait_until, write
from tests.spark.queries import SECONDS
from tests.spark.session import ROOT


def the_lines() -> str:
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if 'format("kafka-eos")' in block]
    return str(found)


def test_the_lines_of_the_readme_are_an_exactly_once_sink(spark: Any, bootstrap: str, checkpoint: str) -> None:
    there = admin(bootstrap).list_topics(timeout=60).topics
    for topic in ("orders", "invoices"):
        if topic not in there:
            make_topic(bootstrap, topic)
    write(bootstrap, "orders", [b"one", b"two"])
    program = the_lines().replace("127.0.0.1:9092", bootstrap).replace("checkpoints/invoices", checkpoint)
    names: dict[str, Any] = {}
    exec(program, names)
    query = names["query"]
    try:
        wait_until(
            lambda: query.exception() or len(read_all(bootstrap, "invoices")) == 2, "two invoices", seconds=SECONDS
        )
        assert sorted(values_of(read_all(bootstrap, "invoices"))) == [b"ONE", b"TWO"]
    finally:
        query.stop()
