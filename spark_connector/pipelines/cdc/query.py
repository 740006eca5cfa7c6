"""Changes of a table into a compacted topic: of each micro-batch the newest change per row, null for a deleted one.

Rows keep their version, in the value and, because a deleted one has none, in a header. What is no change becomes a
dead letter, as it came, in the transaction of its micro-batch.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.settings import Settings
from spark_connector.sink.foreach_batch import eos_writer

CHANGE = "account long, version long, deleted boolean, owner string, balance long"
IS_CHANGE = " and ".join(f"change.{name} is not null" for name in ("account", "version", "deleted", "owner", "balance"))


def newest(changes: DataFrame, topic: str) -> DataFrame:
    """Of all changes of a micro-batch the one with the highest version per account."""
    latest = changes.groupBy("change.account").agg(expr("max_by(change, change.version) as change"))
    row = "to_json(struct(account, change.version, change.owner, change.balance))"
    return latest.selectExpr(
        f"'{topic}' as topic",
        "cast(cast(account as string) as binary) as key",
        f"if(change.deleted, null, cast({row} as binary)) as value",
        "array(named_struct('key', 'version', 'value', cast(cast(change.version as string) as binary))) as headers",
    )


def dead_letters(others: DataFrame, topic: str) -> DataFrame:
    """Key and value as they came, and a header that says from where."""
    place = "concat_ws('/', topic, partition, offset)"
    header = f"array(named_struct('key', 'from', 'value', cast({place} as binary))) as headers"
    return others.selectExpr(f"'{topic}' as topic", "key", "value", header)


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    latest, dead = settings.topic("accounts_latest"), settings.topic("account_dead_letters")
    write = eos_writer(
        {
            "kafka.bootstrap.servers": settings.bootstrap,
            "sinkId": settings.sink_id("cdc"),
            "groupId": settings.topic("accounts-cdc"),
            "checkpointLocation": settings.checkpoint("cdc"),
        },
        topics=[latest, dead],
        tasks=2,
    )

    def write_both(arrived: DataFrame, batch: int) -> None:
        is_change = expr(f"coalesce({IS_CHANGE}, false)")
        good = newest(arrived.where(is_change), latest)
        write(good.unionByName(dead_letters(arrived.where(~is_change), dead)), batch)

    arrived = (
        spark.readStream.format(settings.source)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", settings.topic("account_changes"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.per_batch(200_000))
        .load()
    )
    changes = arrived.selectExpr("*", f"from_json(cast(value as string), '{CHANGE}') as change")
    return (
        changes.writeStream.foreachBatch(write_both)
        .option("checkpointLocation", settings.checkpoint("cdc"))
        .trigger(processingTime="200 milliseconds")
        .queryName("cdc")
        .start()
    )
