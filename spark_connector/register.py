"""All data sources of ours, for a Spark session."""

from pyspark.sql import SparkSession

from spark_connector.sink.kafka_eos import KafkaEos
from spark_connector.source.kafka_arrow import KafkaArrow

DATA_SOURCES = (KafkaEos, KafkaArrow)


def register(spark: SparkSession) -> None:
    """After this, the formats `kafka-eos` and `kafka-arrow` are there."""
    for data_source in DATA_SOURCES:
        spark.dataSource.register(data_source)
