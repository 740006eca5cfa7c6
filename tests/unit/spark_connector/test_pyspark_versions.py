"""Other versions of PySpark than the tested one: what works there works, what does not says why."""

import pytest

pytest.importorskip("pyspark")

from spark_connector import pyspark_versions, register
from spark_connector.errors import UnsupportedPySpark
from spark_connector.pyspark_versions import SINKS, STREAMS, check_pyspark


@pytest.mark.parametrize("version", ["3.5.7", "4.0.1", "4.0.0.dev1"])
def test_before_sinks_were_handed_arrow_nothing_is_registered(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark_versions, "__version__", version)
    with pytest.raises(UnsupportedPySpark, match=f"needs PySpark 4.1 or newer, this is {version}: take Spark's own"):
        register.register(None)  # type: ignore[arg-type]


def test_what_each_version_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, has_streams in (("4.1.4", False), ("4.2.0", True), ("4.10.0", True), ("5.0.0", True)):
        monkeypatch.setattr(pyspark_versions, "__version__", version)
        check_pyspark(SINKS, "a sink")
        if has_streams:
            check_pyspark(STREAMS, "a stream")
        else:
            with pytest.raises(UnsupportedPySpark, match="a stream needs PySpark 4"):
                check_pyspark(STREAMS, "a stream")
