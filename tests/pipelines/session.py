"""The Spark session of the pipelines."""

import os
import sys

from pyspark.sql import SparkSession

from spark_connector.pipelines.settings import DELTA, Settings
from spark_connector.register import register
from tallystick.process import PACKAGES
from tests.pipelines.needs import needed


def new_session(settings: Settings) -> SparkSession:
    """A small session that keeps its files below the run's folder, with our data sources in it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    options = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # A short life: half the start.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.minBatchesToRetain": "1000000",  # The verdict reads the whole batch log.
        "spark.local.dir": f"{settings.folder}/local",
        "spark.sql.warehouse.dir": f"{settings.folder}/warehouse",
        "spark.log.level": "ERROR",
    }
    jars = needed(settings)
    if jars:
        options["spark.jars"] = ",".join(map(str, jars))
    if settings.table_format == DELTA:
        options["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        options["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        options["spark.databricks.delta.snapshotPartitions"] = "2"  # Of a small table; it is 50 by default.
    builder = SparkSession.builder.master("local[2]").appName("tallystick-pipelines")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
