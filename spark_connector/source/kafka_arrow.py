"""The data source `kafka-arrow`: Spark's own Kafka source, read as Arrow, and read_committed unless told otherwise.

`spark.dataSource.register(KafkaArrow)`, then `spark.readStream.format("kafka-arrow").option(…)` with the stock
connector's options. A schema given by the user names the columns that are made, fewer or more than by default:
`.schema("value BINARY, timestamp TIMESTAMP")`.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from spark_connector.errors import BadOption
from spark_connector.source.arrow import KNOWN, ddl
from spark_connector.source.batch_reader import GAPS_DDL, ArrowReader
from spark_connector.source.settings import settings_of
from spark_connector.source.stream_reader import ArrowStreamReader


class KafkaArrow(DataSource):
    """See the head of this file."""

    @classmethod
    def name(cls) -> str:
        return "kafka-arrow"

    def schema(self) -> str:
        settings = settings_of(self.options)
        if settings.report_gaps:
            return GAPS_DDL
        return ddl(headers=settings.headers, transactions=settings.transactions)

    def reader(self, schema: StructType) -> DataSourceReader:
        settings = settings_of(self.options, stream=False)
        if not settings.report_gaps:
            _check(schema)
        return ArrowReader(settings, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        settings = settings_of(self.options, stream=True)
        _check(schema)
        return ArrowStreamReader(settings, schema)


def _check(schema: StructType) -> None:
    """Raises `BadOption` where a column is none of ours, or has another type."""
    for field in schema.fields:
        known = KNOWN.get(field.name)
        if known is None:
            raise BadOption(f"no column {field.name}: there are {', '.join(KNOWN)}")
        ours = known.ddl.lower().replace(": ", ":").replace(", ", ",")
        if field.dataType.simpleString() != ours:
            raise BadOption(
                f"column {field.name} is {known.ddl}, not {field.dataType.simpleString()}: cast it afterwards"
            )
