"""The compacted topic into a Parquet table: micro-batch n reads version n - 1 of the table and writes version n.

So a batch that is run again after a crash writes the same version again, from the same one before it.
"""

import shutil

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.settings import Settings

ROW = "account long, version long, owner string, balance long"


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    def merge(arrived: DataFrame, batch: int) -> None:
        newest = arrived.groupBy("account").agg({"version": "max"}).withColumnRenamed("max(version)", "version")
        table = arrived.join(newest, ["account", "version"]).where("not deleted").select("account", "version", "row.*")
        if batch > 0:
            before = arrived.sparkSession.read.schema(ROW).parquet(settings.table(batch - 1))
            table = before.join(newest, "account", "left_anti").unionByName(table)
        table.coalesce(1).write.mode("overwrite").parquet(settings.table(batch))
        shutil.rmtree(settings.table(batch - 2), ignore_errors=True)

    arrived = (
        spark.readStream.format(settings.source)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", settings.topic("accounts_latest"))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    changes = arrived.selectExpr(
        "cast(cast(key as string) as long) as account",
        "cast(cast(headers[0].value as string) as long) as version",
        "value is null as deleted",
        "from_json(cast(value as string), 'owner string, balance long') as row",
    )
    return (
        changes.writeStream.foreachBatch(merge)
        .option("checkpointLocation", settings.checkpoint("table"))
        .trigger(processingTime="200 milliseconds")
        .queryName("table")
        .start()
    )
