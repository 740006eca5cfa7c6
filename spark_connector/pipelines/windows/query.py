"""Clicks per page and minute, with late data: a window is written once, when the watermark has passed its end.

The state of the open windows lives in Spark's checkpoint, the counts in Kafka; after a crash the two still agree,
because a replayed batch takes the same records and the same watermark, and is written once.
"""

from pyspark.sql import SparkSession
from pyspark.sql.functions import window
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.settings import Settings

CLICK = "at_ms long, page int, user int"


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    arrived = (
        spark.readStream.format(settings.source)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", settings.topic("clicks"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.per_batch(500_000))
        .load()
    )
    clicks = arrived.selectExpr(f"from_json(cast(value as string), '{CLICK}') as click").selectExpr(
        "timestamp_millis(click.at_ms) as at", "click.page as page"
    )
    counts = clicks.withWatermark("at", "10 minutes").groupBy(window("at", "1 minute"), "page").count()
    closed = counts.selectExpr("page", "unix_millis(window.start) as start_ms", "count")
    return (
        closed.selectExpr("concat(page, '@', start_ms) as key", "to_json(struct(*)) as value")
        .writeStream.format(settings.sink)
        .outputMode("append")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("topic", settings.topic("page_counts"))
        .option("sinkId", settings.sink_id("windows"))
        .option("checkpointLocation", settings.checkpoint("windows"))
        .trigger(processingTime="200 milliseconds")
        .queryName("windows")
        .start()
    )


def open_windows(spark: SparkSession, settings: Settings, batch: int) -> list[list[object]]:
    """What the state store held after a batch: [page, start in milliseconds, count] of each open window."""
    _ = spark.streams.active  # Asked before any query has started, this wakes what knows of state stores.
    state = spark.read.format("statestore").option("batchId", batch).load(settings.checkpoint("windows"))
    rows = state.selectExpr("key.page as page", "unix_millis(key.window.start) as start_ms", "value.count as count")
    return [list(row) for row in rows.collect()]
