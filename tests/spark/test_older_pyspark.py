"""The oldest PySpark that docs/spark.md names, in an environment of its own: what it says works there does, and what it
says does not is told in a sentence. PySpark comes from an index, where one can be reached.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from tests.harness.confluent import make_topic, read_all, values_of
from tests.harness.empty_environment import PIP, empty_environment
from tests.harness.spark_wheel import build
from tests.spark.queries import SECONDS

VERSION = "4.1.4"
ROWS = 300
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

given = json.loads(sys.argv[1])
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.local.dir", given["folder"]).config("spark.sql.warehouse.dir", given["folder"])
    .config("spark.sql.files.maxPartitionBytes", 200).config("spark.sql.files.openCostInBytes", 0)
    .config("spark.log.level", "ERROR").getOrCreate())
assert spark.version == given["version"], spark.version

from spark_connector.register import register
from spark_connector.sink.foreach_batch import eos_writer

register(spark)
options = {"kafka.bootstrap.servers": given["bootstrap"]}
lines = spark.readStream.text(given["lines"])
if given["step"] == "format":
    query = (lines.writeStream.format("kafka-eos").options(**options, topic=given["topic"])
        .option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True).start())
    query.awaitTermination()
elif given["step"] == "writer":
    write = eos_writer({**options, "topic": given["topic"], "checkpointLocation": given["checkpoint"]})
    query = (lines.writeStream.foreachBatch(write).option("checkpointLocation", given["checkpoint"])
        .trigger(availableNow=True).start())
    query.awaitTermination()
elif given["step"] == "batch":
    frame = spark.read.format("kafka-arrow").options(**options, subscribe=given["topic"]).load()
    print("values", json.dumps(sorted(row.value.decode() for row in frame.select("value").collect())))
else:
    stream = spark.readStream.format("kafka-arrow").options(**options, subscribe=given["topic"]).load()
    try:
        stream.writeStream.format("noop").option("checkpointLocation", given["checkpoint"]).start().awaitTermination()
    except Exception as error:
        print("refused", "needs PySpark 4.2 or newer" in str(error))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    made = empty_environment(folder / "environment", build(folder), beside=["pyarrow", "pandas", "numpy"])
    install = [*PIP, "--python", str(made), "install", "--quiet", f"pyspark=={VERSION}"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"PySpark {VERSION} cannot be had here: {done.stderr.strip()[-200:]}")
    return made


class Driver:
    """Programs of that environment over one folder of lines."""

    def __init__(self, python: Path, bootstrap: str, topic: str, folder: Path) -> None:
        self._python, self._folder = python, folder
        self._given: dict[str, Any] = {"bootstrap": bootstrap, "topic": topic, "version": VERSION}
        self._given |= {"folder": str(folder / "spark"), "lines": str(folder / "lines")}
        self.values: list[str] = []
        (folder / "lines").mkdir()
        (folder / "program.py").write_text(PROGRAM)

    def more_lines(self) -> None:
        first = len(self.values)
        new = [f"{number:05d}" for number in range(first, first + ROWS)]
        (self._folder / "lines" / f"{first}.txt").write_text("".join(f"{value}\n" for value in new))
        self.values += new

    def run(self, step: str, checkpoint: str) -> str:
        given = self._given | {"step": step, "checkpoint": str(self._folder / checkpoint)}
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "JAVA_HOME", "HOME", "LANG")}
        done = subprocess.run(
            [str(self._python), str(self._folder / "program.py"), json.dumps(given)],
            cwd=self._folder,
            env=kept | {"PYSPARK_PYTHON": str(self._python)},
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return done.stdout


@pytest.mark.whole
@pytest.mark.skipif(sys.version_info >= (3, 14), reason=f"PySpark {VERSION} is older than this Python")
def test_what_an_older_pyspark_can_do_it_does(bootstrap: str, name: str, python: Path, tmp_path: Path) -> None:
    for step in ("format", "writer"):
        make_topic(bootstrap, f"{name}-{step}", 3)
        (tmp_path / step).mkdir()
        driver = Driver(python, bootstrap, f"{name}-{step}", tmp_path / step)
        for _ in range(3):
            driver.more_lines()
            driver.run(step, "checkpoint")
            found = values_of(read_all(bootstrap, f"{name}-{step}", read_committed=True))
            assert sorted(value.decode() for value in found) == driver.values
        said = driver.run("batch", "")
        assert json.loads(said.partition("values ")[2]) == driver.values
        assert "refused True" in driver.run("stream", "of-a-stream")
