"""A binary column of `kafka-arrow` as a typed one: the options, the type at planning, the values in the workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from spark_connector.errors import BadOption
from spark_connector.formats.errors import CannotDecode, NoSuchSchema, NoSuchType
from spark_connector.formats.registry import FORMATS, Registry, Schema, registry
from spark_connector.formats.shapes import shaped
from tallystick.schemas.wire import BadFrame, opened

_NOT_READ = (CannotDecode, BadFrame, NoSuchSchema, NoSuchType)
"""What is wrong with a value, not with the registry. The id in front of it may be nobody's, or of another format."""
_NOT_TAKEN = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)
"""What Arrow raises for a value of another type, or one that is too large."""


class Reader(Protocol):
    """One format, one schema that values are read as."""

    def ddl(self) -> str: ...

    def read(self, schema_id: int, payload: memoryview) -> Any: ...


def _reader(schema: Schema, of: Registry, message: str | None) -> Reader:
    """Imported late: without Avro there is no need for fastavro."""
    if schema.kind == "AVRO":
        from spark_connector.formats.avro import AvroReader

        return AvroReader(schema, of)
    if schema.kind == "JSON":
        from spark_connector.formats.json_schema import JsonReader

        return JsonReader(schema, of)
    from spark_connector.formats.protobuf import ProtobufReader

    return ProtobufReader(schema, of, message)


@dataclass(slots=True)
class Decoding:
    """How one column is read. Made where a query is planned, so that all of its tasks read by the same schema."""

    column: str
    urls: str
    credentials: str | None
    schema: Schema
    message: str | None
    errors_are_null: bool
    _made: Reader | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.column, self.urls, self.credentials, self.schema, self.message, self.errors_are_null

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.column, self.urls, self.credentials, self.schema, self.message, self.errors_are_null = state
        self._made = None

    def reader(self) -> Reader:
        if self._made is None:
            self._made = _reader(self.schema, registry(self.urls, self.credentials), self.message)
        return self._made

    def typed(self, binary: Any, kind: Any, where: str) -> Any:
        """The column as an Arrow array of that type. Raises `CannotDecode`, which says in which row of `where`."""
        read, values = self._reading(), []
        for number, value in enumerate(binary.to_pylist()):
            try:
                values.append(None if value is None else shaped(read(*opened(value)), kind))
            except (*_NOT_READ, AttributeError, TypeError) as error:
                if not self.errors_are_null:
                    raise self._refusal(f"{where}, row {number}", error) from error
                values.append(None)
        try:
            return pa.array(values, type=kind)
        except _NOT_TAKEN:
            return pa.array(self._fitting(values, kind, where), type=kind)

    def _reading(self) -> Callable[[int, memoryview], Any]:
        """The reader's `read`. Of an id that the registry does not know it is asked once for all of a column."""
        reader, unknown = self.reader(), dict[int, Exception]()

        def read(schema_id: int, payload: memoryview) -> Any:
            if schema_id in unknown:
                raise unknown[schema_id]
            try:
                return reader.read(schema_id, payload)
            except (NoSuchSchema, NoSuchType) as error:
                unknown[schema_id] = error
                raise

        return read

    def _fitting(self, values: Sequence[Any], kind: Any, where: str) -> list[Any]:
        """Null for what Arrow does not take for that type: its schema was not kept to when it was written."""
        fitting = []
        for number, value in enumerate(values):
            try:
                pa.array([value], type=kind)
            except _NOT_TAKEN as error:
                if not self.errors_are_null:
                    raise self._refusal(f"{where}, row {number}", error) from error
                value = None
            fitting.append(value)
        return fitting

    def _refusal(self, where: str, error: Exception) -> CannotDecode:
        return CannotDecode(
            f"column {self.column} of {where}: {error}. To read on, with null in its place, set option "
            "decodeErrors to null."
        )


def decodings(given: Mapping[str, Any], topics: Sequence[str]) -> tuple[Decoding, ...]:
    """What the options `keyFormat` and `valueFormat` want; asks the registry. Raises `BadOption` and what it raises."""
    return tuple(
        _decoding(column, given, topics)
        for column in ("key", "value")
        if given[f"{column}Format"] not in ("binary", None)
    )


def _decoding(column: str, given: Mapping[str, Any], topics: Sequence[str]) -> Decoding:
    urls, credentials = given["schema.registry.url"], given["schema.registry.basic.auth.user.info"]
    if not urls:
        raise BadOption(f"option {column}Format wants schema.registry.url: where the Schema Registry is")
    subject = given[f"{column}Subject"]
    if not subject:
        if len(topics) != 1:
            raise BadOption(f"with several topics option {column}Subject must name the schema that all are read as")
        subject = f"{topics[0]}-{column}"
    schema = registry(urls, credentials).latest(subject)
    wanted = FORMATS[given[f"{column}Format"]]
    if schema.kind != wanted:
        raise BadOption(f"option {column}Format={given[f'{column}Format']}: subject {subject} is {schema.kind}")
    return Decoding(column, urls, credentials, schema, given[f"{column}Message"], given["decodeErrors"] == "null")


def binary_first(schema: Any, chosen: Sequence[Decoding]) -> Any:
    """The Arrow schema with these columns as they come from Kafka."""
    names = {one.column for one in chosen}
    return pa.schema([pa.field(one.name, pa.binary()) if one.name in names else one for one in schema])


def decoded(batch: Any, schema: Any, chosen: Sequence[Decoding], where: str) -> Any:
    """The record batch with the columns that `schema` wants."""
    by_column = {one.column: one for one in chosen}
    arrays = [
        by_column[wanted.name].typed(array, wanted.type, where) if wanted.name in by_column else array
        for wanted, array in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
