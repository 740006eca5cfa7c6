"""Changes of a table into a compacted topic: of each micro-batch the newest change per row, null for a deleted one.

Changes are Avro, by the schema that a Schema Registry has for the topic. Rows keep their version, in the value and,
because a deleted one has none, in a header. What is no change becomes a dead letter, as it came, in the transaction of
its micro-batch.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.settings import Settings
from spark_connector.sink.foreach_batch import eos_writer


def arriving(reading: Any, settings: Settings) -> Any:
    """Changes as values of the registry's type, null for what is none, and each value as it came. `reading` is a reader
    of a stream, or of a batch. Spark's own source knows no registry.
    """
    return (
        reading.format("kafka-arrow")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("subscribe", settings.topic("account_changes"))
        .option("startingOffsets", "earliest")
        .option("valueFormat", "confluent-avro")
        .option("schema.registry.url", settings.registry)
        .option("decodeErrors", "null")
        .option("includeBytes", "true")
    )


def newest(changes: DataFrame, topic: str) -> DataFrame:
    """Of all changes of a micro-batch the one with the highest version per account."""
    latest = changes.groupBy("value.account").agg(expr("max_by(value, value.version) as change"))
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
    return others.selectExpr(f"'{topic}' as topic", "key", "valueBytes as value", header)


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
        good = newest(arrived.where("value is not null"), latest)
        write(good.unionByName(dead_letters(arrived.where("value is null"), dead)), batch)

    changes = arriving(spark.readStream, settings).option("maxOffsetsPerTrigger", settings.per_batch(200_000)).load()
    query: StreamingQuery = (
        changes.writeStream.foreachBatch(write_both)
        .option("checkpointLocation", settings.checkpoint("cdc"))
        .trigger(processingTime="200 milliseconds")
        .queryName("cdc")
        .start()
    )
    return query
