"""`tallystick-spark` installed alone into an empty environment with PySpark: a query of source and sink runs there, and
nothing of the broker is to be found, neither by the driver nor by its workers.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from distributions.spark.vendored import OURS
from tests.harness.empty_environment import empty_environment
from tests.harness.spark_wheel import build
from tests.spark.eos_queries import input_of, output_of
from tests.spark.queries import SECONDS

PROGRAM = """
import importlib.util, json, sys
from pyspark.sql import SparkSession

given = json.loads(sys.argv[1])
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.local.dir", given["folder"]).config("spark.sql.warehouse.dir", given["folder"])
    .config("spark.log.level", "ERROR").getOrCreate())


def found(batches):
    import pyarrow

    for _batch in batches:
        names = [name for name in given["names"] if importlib.util.find_spec(name) is not None]
        yield pyarrow.RecordBatch.from_pydict({"name": pyarrow.array(names, pyarrow.string())})


from spark_connector.register import register

register(spark)
orders = (spark.readStream.format("kafka-arrow").option("kafka.bootstrap.servers", given["bootstrap"])
    .option("subscribe", given["topic"] + "-in").option("startingOffsets", "earliest").load())
query = (orders.select("key", "value").writeStream.format("kafka-eos")
    .option("kafka.bootstrap.servers", given["bootstrap"]).option("topic", given["topic"] + "-out")
    .option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True).start())
query.awaitTermination()
here = [name for name in given["names"] if importlib.util.find_spec(name) is not None]
there = [row.name for row in spark.range(1).mapInArrow(found, "name string").collect()]
print("found", json.dumps([here, there]))
"""


def test_a_query_of_source_and_sink_in_an_environment_of_its_own(
    bootstrap: str, name: str, checkpoint: str, tmp_path: Path
) -> None:
    python = empty_environment(tmp_path / "environment", build(tmp_path), extras=["pyspark"])
    wanted = input_of(bootstrap, name)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    given: dict[str, Any] = {"bootstrap": bootstrap, "topic": name, "checkpoint": checkpoint, "names": sorted(OURS)}
    given["folder"] = str(tmp_path / "spark")
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "JAVA_HOME", "HOME", "LANG", "TMPDIR")}
    done = subprocess.run(
        [str(python), str(program), json.dumps(given)],
        cwd=tmp_path,
        env=kept | {"PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert "found [[], []]" in done.stdout, done.stderr[-5000:]
    assert output_of(bootstrap, name) == wanted
