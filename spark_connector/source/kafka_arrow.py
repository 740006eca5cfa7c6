"""The data source `kafka-arrow`: Spark's own Kafka source, read as Arrow, and read_committed by default.

`spark.dataSource.register(KafkaArrow)`, then `spark.readStream.format("kafka-arrow").option(…)` with the stock
connector's options. A schema given by the user names the columns that are made, fewer or more than by default:
`.schema("value BINARY, timestamp TIMESTAMP")`.
"""

from collections.abc import Iterable

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructField, StructType

from spark_connector.errors import BadOption
from spark_connector.formats.decoding import Decoding, decodings
from spark_connector.pyspark_versions import STREAMS, check_pyspark
from spark_connector.source.arrow import KNOWN, ddl
from spark_connector.source.batch_reader import GAPS_DDL, ArrowReader
from spark_connector.source.settings import Settings, settings_of


class KafkaArrow(DataSource):
    """See the head of this file."""

    @classmethod
    def name(cls) -> str:
        return "kafka-arrow"

    def schema(self) -> str:
        settings = settings_of(self.options)
        if settings.report_gaps:
            return GAPS_DDL
        typed = {one.column: one.reader().ddl() for one in decodings(settings.formats, settings.topics)}
        return ddl(
            headers=settings.headers, transactions=settings.transactions, bytes_too=settings.bytes_too, typed=typed
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        settings = settings_of(self.options, stream=False)
        if settings.report_gaps:
            return ArrowReader(settings, schema, ())
        return ArrowReader(settings, schema, _checked(schema, settings))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_pyspark(STREAMS, "a stream from kafka-arrow", ": take format kafka, which kafka-eos writes from as well")
        from spark_connector.source.stream_reader import ArrowStreamReader

        settings = settings_of(self.options, stream=True)
        return ArrowStreamReader(settings, schema, _checked(schema, settings))


def _checked(schema: StructType, settings: Settings) -> tuple[Decoding, ...]:
    """How its typed columns are read. Raises `BadOption` where another column is none of ours, or has another type."""
    names = [field.name for field in schema.fields]
    chosen = tuple(one for one in decodings(settings.formats, settings.topics) if one.column in names)
    _check(field for field in schema.fields if field.name not in [one.column for one in chosen])
    return chosen


def _check(fields: Iterable[StructField]) -> None:
    for field in fields:
        known = KNOWN.get(field.name)
        if known is None:
            raise BadOption(f"no column {field.name}: there are {', '.join(KNOWN)}")
        ours = known.ddl.lower().replace(": ", ":").replace(", ", ",")
        if field.dataType.simpleString() != ours:
            raise BadOption(
                f"column {field.name} is {known.ddl}, not {field.dataType.simpleString()}: cast it afterwards"
            )
