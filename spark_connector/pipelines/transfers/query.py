"""Money transfers into a double-entry ledger: each transfer becomes two entries, in the same micro-batch.

The ledger is exactly right when it is read with `read_committed`: a micro-batch is there whole or not at all.
"""

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector.pipelines.settings import Settings

TRANSFER = "number long, payer int, payee int, cents long"


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    arrived = (
        spark.readStream.format(settings.source)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", settings.topic("transfers"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.per_batch(1_000_000))
        .load()
    )
    transfers = arrived.selectExpr(f"from_json(cast(value as string), '{TRANSFER}') as transfer").select("transfer.*")
    entries = transfers.where("cents > 0 and payer <> payee").selectExpr(
        "number",
        "inline(array(struct(payer as account, -cents as cents), struct(payee as account, cents as cents)))",
    )
    return (
        entries.selectExpr("cast(account as string) as key", "to_json(struct(*)) as value")
        .writeStream.format(settings.sink)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("topic", settings.topic("ledger"))
        .option("sinkId", settings.sink_id("transfers"))
        .option("checkpointLocation", settings.checkpoint("transfers"))
        .trigger(processingTime="200 milliseconds")
        .queryName("transfers")
        .start()
    )
