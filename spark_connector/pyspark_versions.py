"""Which PySpark there is, and whether it has what is needed here."""

import re
from typing import Any

from pyspark import __version__
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_connector.errors import UnsupportedPySpark

Version = tuple[int, int]
SINKS: Version = (4, 1)
"""Sinks that are handed Arrow, and shuffles by a partition's number, are there from here on."""
STREAMS: Version = (4, 2)
"""Sources that are told how much to read, and that are asked for their end with it."""


def arrow_schema(schema: StructType) -> Any:
    """As Arrow has it. Timestamps are in UTC, which before 4.2 is how it is and cannot be said."""
    return to_arrow_schema(schema, timezone="UTC") if _found() >= STREAMS else to_arrow_schema(schema)


def check_pyspark(wanted: Version, what: str, otherwise: str = "") -> None:
    """Raises `UnsupportedPySpark`, where what there is is older."""
    if _found() < wanted:
        least = ".".join(map(str, wanted))
        raise UnsupportedPySpark(f"{what} needs PySpark {least} or newer, this is {__version__}{otherwise}")


def _found() -> Version:
    major, minor = re.findall(r"\d+", __version__)[:2]
    return int(major), int(minor)
