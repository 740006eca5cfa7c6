"""Other PySparks than that of the lock, each in an environment of its own: what docs/spark.md says works there does,
and what it says does not is told in a sentence. They come from an index, where one can be reached.
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

WITHOUT_STREAMS = "4.1.4"
VERSIONS = (WITHOUT_STREAMS, "4.2.1", "4.3.0")
ROWS = 300
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

given = json.loads(sys.argv[1])
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.local.dir", given["folder"]).config("spark.sql.warehouse.dir", given["folder"])
    .config("spark.sql.files.maxPartitionBytes", 200).config("spark.sql.files.openCostInBytes", 0)
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # Half the start.
    .config("spark.log.level", "ERROR").getOrCreate())
assert spark.version == given["version"], spark.version

from spark_connector.register import register
from spark_connector.sink.foreach_batch import eos_writer

register(spark)
options = {"kafka.bootstrap.servers": given["bootstrap"]}

def run(writing, checkpoint):
    query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()

def values(topic):
    frame = spark.read.format("kafka-arrow").options(**options, subscribe=topic).load()
    return sorted(row.value.decode() for row in frame.select("value").collect())

def read_as_a_stream(topic):
    named = options | {"subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kafka-arrow").options(**named).load().select("value")

for through in ("format", "writer"):
    topic, copy, checkpoint = given[through]
    lines = spark.readStream.text(given["lines"]).writeStream
    if through == "format":
        lines = lines.format("kafka-eos").options(**options, topic=topic)
    else:
        lines = lines.foreachBatch(eos_writer({**options, "topic": topic, "checkpointLocation": checkpoint}))
    run(lines, checkpoint)
    said = {"through": through, "values": values(topic)}
    copying = read_as_a_stream(topic).writeStream.format("kafka-eos").options(**options, topic=copy)
    try:
        run(copying, checkpoint + "-copy")
        said["copied"] = values(copy)
    except Exception as error:
        if "needs PySpark 4.2 or newer" not in str(error):
            raise
        said["refused"] = True
    print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    if request.param == WITHOUT_STREAMS and sys.version_info >= (3, 14):
        pytest.skip(f"PySpark {request.param} is older than this Python")
    return str(request.param)


@pytest.fixture(scope="module")
def python(version: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    made = empty_environment(folder / "environment", wheel, beside=["pyarrow", "pandas", "numpy"])
    install = [*PIP, "--python", str(made), "install", "--quiet", f"pyspark=={version}"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"PySpark {version} cannot be had here: {done.stderr.strip()[-200:]}")
    return made


class Driver:
    """Runs of the program over one folder of lines: each is a new driver on the same checkpoints."""

    def __init__(self, python: Path, folder: Path, given: dict[str, Any]) -> None:
        self._python, self._folder = python, folder
        self._given = given | {"folder": str(folder / "spark"), "lines": str(folder / "lines")}
        self.values: list[str] = []
        (folder / "lines").mkdir(parents=True)
        (folder / "program.py").write_text(PROGRAM)

    def more_lines(self) -> None:
        first = len(self.values)
        new = [f"{number:05d}" for number in range(first, first + ROWS)]
        (self._folder / "lines" / f"{first}.txt").write_text("".join(f"{value}\n" for value in new))
        self.values += new

    def run(self) -> list[dict[str, Any]]:
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "JAVA_HOME", "HOME", "LANG")}
        done = subprocess.run(
            [str(self._python), str(self._folder / "program.py"), json.dumps(self._given)],
            cwd=self._folder,
            env=kept | {"PYSPARK_PYTHON": str(self._python)},
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def forget_a_batch(checkpoint: Path, batch: int) -> None:
    """As if the driver had died before Spark noted the batch as done."""
    for file in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / file).unlink()


@pytest.mark.whole
def test_what_another_pyspark_can_do_it_does(
    bootstrap: str, name: str, version: str, python: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"bootstrap": bootstrap, "version": version}
    for through in ("format", "writer"):
        topics = [make_topic(bootstrap, f"{name}-{through}-{what}", 3) for what in ("lines", "copy")]
        given[through] = [*topics, str(tmp_path / through)]
    driver = Driver(python, tmp_path / "driver", given)
    for turn in range(3):
        if turn < 2:
            driver.more_lines()
        for through in ("format", "writer") if turn == 2 else ():
            forget_a_batch(tmp_path / through, turn - 1)
        wanted: dict[str, Any] = {"values": driver.values}
        wanted |= {"refused": True} if version == WITHOUT_STREAMS else {"copied": driver.values}
        assert driver.run() == [{"through": through} | wanted for through in ("format", "writer")]
        for through in ("format", "writer"):
            found = values_of(read_all(bootstrap, given[through][0]))
            assert sorted(value.decode() for value in found) == driver.values
