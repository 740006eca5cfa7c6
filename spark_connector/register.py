"""All data sources of ours, for a Spark session."""

from pyspark.sql import SparkSession

from spark_connector.sink.kafka_eos import KafkaEos

DATA_SOURCES = (KafkaEos,)


def register(spark: SparkSession) -> None:
    """After this, `format("kafka-eos")` is there."""
    for data_source in DATA_SOURCES:
        spark.dataSource.register(data_source)
