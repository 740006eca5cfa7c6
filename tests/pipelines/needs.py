"""What must be there for Spark to run the pipelines, and for a table of Delta; can be checked without Spark."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from spark_connector.pipelines.settings import DELTA, PARQUET, STOCK, Settings
from tallystick.process import PACKAGES
from tests.harness import jars as jar_sets

JARS = PACKAGES / ".jars" / "spark"


class NoSpark(Exception):
    """Spark cannot run here, in a sentence that says what to do."""


def needed(settings: Settings) -> list[Path]:
    """The jars of Spark's own connector and of Delta, where they are used. Raises `NoSpark`."""
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        raise NoSpark("PySpark is not installed: pip install 'tallystick[spark]', or `make jars`")
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise NoSpark("no Java found on PATH or in JAVA_HOME: Spark needs Java 17 or newer")
    jars = []
    if STOCK in (settings.source, settings.sink):
        jars += sorted(JARS.glob("*.jar"))
        if not jars:
            raise NoSpark(f"no jars in {JARS}: run `make jars`, or use --source kafka-arrow")
    if settings.table_format == DELTA:
        jars += sorted((jar_sets.JARS / DELTA).glob("*.jar"))
    return jars


def table_format(wanted: str) -> str:
    """What the table of cdc is written as."""
    return PARQUET if why_not_delta() else wanted


def why_not_delta() -> str:
    """Why no table of Delta can be written here; empty where one can."""
    return "" if jar_sets.is_complete(DELTA) else f"there are no jars in .jars/{DELTA}: run `make pipelines`"
