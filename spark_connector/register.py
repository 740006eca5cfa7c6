"""All data sources of ours, for a Spark session."""

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from spark_connector.pyspark_versions import SINKS, check_pyspark

if TYPE_CHECKING:
    from spark_connector.sink.kafka_eos import KafkaEos


def register(spark: SparkSession) -> None:
    """After this, the formats `kafka-eos` and `kafka-arrow` are there; the first in the threads only that call this.
    Raises `UnsupportedPySpark`.
    """
    check_pyspark(SINKS, "Tallystick's connector", ": take Spark's own connector, which is at least once")
    from spark_connector.sink.kafka_eos import KafkaEos
    from spark_connector.source.kafka_arrow import KafkaArrow

    if getattr(spark, "_jsparkSession", None) is not None:
        # Spark looks for a format in the session that is active in the calling thread, and in no other: for that of a
        # sink, and for one that it already knows when this one is made known.
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    spark.dataSource.register(reading_through(spark, KafkaEos))
    spark.dataSource.register(KafkaArrow)


def reading_through(spark: SparkSession, sink: "type[KafkaEos]") -> "type[KafkaEos]":
    """The sink, with checkpoints read as this session's Spark reads them, and batches that all tasks write. A class of
    its own, and so pickled as a whole: that is what Spark hands to its other processes.
    """
    from spark_connector.checkpoint_files import files_for_workers
    from spark_connector.sink.batch_server import sharing_of
    from spark_connector.sink.lease_notes import notes_of

    class Registered(sink):  # type: ignore[valid-type, misc]
        files = files_for_workers(spark)
        notes = notes_of(spark)
        sharing = sharing_of(spark)

    return Registered
