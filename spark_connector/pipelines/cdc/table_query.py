"""The compacted topic into a table, exactly once: a micro-batch that is run again after a crash changes nothing.

    delta    each micro-batch is one MERGE, whose commit names the query and the batch; Delta passes over a batch that
             the table has, and refuses one that another driver commits meanwhile
    parquet  micro-batch n reads version n - 1 of the table and writes version n: run again, it writes the same version
             again, from the same one before it

Either takes the newest change per account.
"""

import shutil

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.settings import DELTA, Settings

ROW = "account long, version long, owner string, balance long"
MERGE = """
    merge into delta.`{table}` as held using changes on held.account = changes.account
    when matched and changes.deleted then delete
    when matched then update set *
    when not matched and not changes.deleted then insert *
"""


def newest(arrived: DataFrame) -> DataFrame:
    """Of all changes of a micro-batch the one with the highest version per account."""
    latest = expr("max_by(struct(version, deleted, row.owner, row.balance), version) as latest")
    return arrived.groupBy("account").agg(latest).select("account", "latest.*")


def into_delta(arrived: DataFrame, batch: int, table: str) -> None:
    session = arrived.sparkSession
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    session.conf.set("spark.databricks.delta.write.txnAppId", query_id)
    session.conf.set("spark.databricks.delta.write.txnVersion", batch)
    newest(arrived).createOrReplaceTempView("changes")
    session.sql(MERGE.format(table=table))


def into_parquet(arrived: DataFrame, batch: int, table: str) -> None:
    changes = newest(arrived)
    rows = changes.where("not deleted").drop("deleted")
    if batch > 0:
        before = arrived.sparkSession.read.schema(ROW).parquet(f"{table}/{batch - 1}")
        rows = before.join(changes, "account", "left_anti").unionByName(rows)
    rows.coalesce(1).write.mode("overwrite").parquet(f"{table}/{batch}")
    shutil.rmtree(f"{table}/{batch - 2}", ignore_errors=True)


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    table = settings.table()
    into = into_delta if settings.table_format == DELTA else into_parquet
    if settings.table_format == DELTA:
        spark.sql(f"create table if not exists delta.`{table}` ({ROW}) using delta")
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
        changes.writeStream.foreachBatch(lambda arrived, batch: into(arrived, batch, table))
        .option("checkpointLocation", settings.checkpoint("table"))
        .trigger(processingTime="200 milliseconds")
        .queryName("table")
        .start()
    )
