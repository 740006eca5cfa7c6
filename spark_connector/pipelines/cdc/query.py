"""Changes of a table into a compacted topic: of each micro-batch the newest change per row, null for a deleted one.

Rows keep their version, in the value and, because a deleted one has none, in a header.
"""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.settings import Settings

CHANGE = "account long, version long, deleted boolean, owner string, balance long"


def newest(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Of all changes of a micro-batch the one with the highest version per account."""
    changes = list(frames)
    if changes:
        yield pd.concat(changes).sort_values("version").drop_duplicates("account", keep="last")


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    arrived = (
        spark.readStream.format(settings.source)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", settings.topic("account_changes"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.per_batch(200_000))
        .load()
    )
    changes = arrived.selectExpr(f"from_json(cast(value as string), '{CHANGE}') as change").select("change.*")
    rows = changes.coalesce(1).mapInPandas(newest, CHANGE)
    return (
        rows.selectExpr(
            "cast(account as string) as key",
            "if(deleted, null, to_json(struct(account, version, owner, balance))) as value",
            "array(named_struct('key', 'version', 'value', cast(cast(version as string) as binary))) as headers",
        )
        .writeStream.format(settings.sink)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("topic", settings.topic("accounts_latest"))
        .option("sinkId", settings.sink_id("cdc"))
        .option("groupId", settings.topic("accounts-cdc"))
        .option("checkpointLocation", settings.checkpoint("cdc"))
        .trigger(processingTime="200 milliseconds")
        .queryName("cdc")
        .start()
    )
