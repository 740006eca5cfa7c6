"""A small Spark session with Spark's own Kafka connector in it, and what must be there to have one."""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.harness import jars

ROOT = Path(__file__).resolve().parents[2]


class NotHere(Exception):
    """Spark cannot run here, in a sentence that says why."""


def needed() -> list[str]:
    """The connector's jars. Raises `NotHere`."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise NotHere("PySpark is not installed: run `make jars`")
    try:
        jars.java_of_spark()
    except jars.JarsMissing as reason:
        raise NotHere(str(reason)) from None
    if not jars.is_complete("spark"):
        raise NotHere("no jars in .jars/spark: run `make jars`")
    return [str(jars.JARS / "spark" / file) for file in sorted(jars.expected("spark"))]


def worker_environment() -> dict[str, str]:
    """What Python workers must find: this interpreter, and our packages."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}


def settings_of_session(folder: Path) -> dict[str, str]:
    """Those of a small session that keeps all of its files below `folder`."""
    return {
        "spark.jars": ",".join(needed()),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # Half the start for a short life.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # Over TCP a client that looks for its dead broker meets Spark's server of rows on that port, and ends it.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.pollingDelay": "5ms",
        "spark.log.level": "ERROR",
    }


def new_session(folder: Path, master: str = "local[2]", more: Mapping[str, str] | None = None) -> Any:
    """A session of this process. `more` are settings that go before the others."""
    from pyspark.sql import SparkSession

    os.environ.update(worker_environment())
    settings = settings_of_session(folder)
    builder = SparkSession.builder.master(master).appName("tallystick-tests")
    for key, value in (settings | dict(more or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def register_everything(spark: Any) -> None:
    """Our data sources, and those with faults in them."""
    from spark_connector.register import reading_through, register
    from tests.spark.faulty_sink import FaultyEos, LoneEos

    register(spark)
    spark.dataSource.register(reading_through(spark, FaultyEos))
    spark.dataSource.register(LoneEos)
