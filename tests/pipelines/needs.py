"""What must be there for Spark to run the pipelines; can be checked without Spark."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from spark_connector.pipelines.settings import STOCK, Settings
from tallystick.process import PACKAGES

JARS = PACKAGES / ".jars" / "spark"


class NoSpark(Exception):
    """Spark cannot run here, in a sentence that says what to do."""


def needed(settings: Settings) -> list[Path]:
    """The jars of Spark's own connector, where it is used. Raises `NoSpark`."""
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        raise NoSpark("PySpark is not installed: pip install 'tallystick[spark]', or `make jars`")
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise NoSpark("no Java found on PATH or in JAVA_HOME: Spark needs Java 17 or newer")
    if STOCK not in (settings.source, settings.sink):
        return []
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        raise NoSpark(f"no jars in {JARS}: run `make jars`, or use --source kafka-arrow")
    return jars
