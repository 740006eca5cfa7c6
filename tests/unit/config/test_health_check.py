"""Which listener the container's health check looks at."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "docker" / "healthcheck.py"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,SSL:SSL,OUTSIDE:SASL_SSL"


@pytest.mark.parametrize(
    ("listeners", "expected"),
    [
        (None, (9092, True)),
        ("PLAINTEXT://0.0.0.0:9092,SSL://0.0.0.0:9093", (9092, True)),
        ("OUTSIDE://0.0.0.0:9093, INSIDE://[::1]:9094", (9094, True)),
        ("OUTSIDE://0.0.0.0:9093,SSL://0.0.0.0:9094", (9093, False)),
    ],
)
def test_the_first_open_listener_is_asked_else_the_first(listeners: str | None, expected: tuple[int, bool]) -> None:
    environment = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": PROTOCOLS} if listeners else {}
    environment |= {"KAFKA_LISTENERS": listeners} if listeners else {}
    assert runpy.run_path(str(SCRIPT))["listener"](environment) == expected
