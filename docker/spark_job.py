"""The job of compose.spark.yml: what comes into one topic goes into another in capitals, exactly once, through kills.

It is there to be changed. Topics and broker come from the environment; how far it has come is in CHECKPOINT.
"""

import os
import signal
import sys
from types import FrameType

from pyspark.sql import SparkSession

from spark_connector.register import register

BOOTSTRAP = os.environ.get("BOOTSTRAP", "broker:19092")
SOURCE, TARGET = os.environ.get("SOURCE", "orders"), os.environ.get("TARGET", "invoices")
CHECKPOINT = os.environ.get("CHECKPOINT", "/var/lib/spark/invoices")


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]").appName("invoices").config("spark.ui.enabled", "false").getOrCreate()
    )
    register(spark)
    orders = (
        spark.readStream.format("kafka-arrow")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        orders.selectExpr("key", "cast(upper(cast(value as string)) as binary) value")
        .writeStream.format("kafka-eos")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("topic", TARGET)
        .option("groupId", "invoicing")
        .option("checkpointLocation", CHECKPOINT)
        .trigger(processingTime="1 second")
        .start()
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        query.stop()
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    query.awaitTermination()


if __name__ == "__main__":
    main()
