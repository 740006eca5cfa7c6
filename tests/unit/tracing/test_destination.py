"""Whether traces are wanted, and where they go; what cannot be is said in a sentence."""

import logging

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.sources import ConfigError
from broker.tracing.destination import destination, refuse

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
WHOLE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
HERE = "http://127.0.0.1:4318"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({"tallystick." + name.replace("_", "."): text for name, text in settings.items()})


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        ({BASE: ""}, None),
        ({BASE: HERE}, f"{HERE}/v1/traces"),
        ({BASE: f"{HERE}/otlp/"}, f"{HERE}/otlp/v1/traces"),
        ({BASE: HERE, WHOLE: "https://collector/mine"}, "https://collector/mine"),
        ({BASE: HERE, "OTEL_SDK_DISABLED": "True"}, None),
        ({BASE: HERE, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({BASE: HERE, "OTEL_TRACES_EXPORTER": "console, otlp"}, f"{HERE}/v1/traces"),
        ({BASE: HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, f"{HERE}/v1/traces"),
    ],
)
def test_variables_of_opentelemetry(environment: dict[str, str], found: str | None) -> None:
    assert destination(config(), environment) == found


def test_the_setting_goes_before_the_variables() -> None:
    own = config(traces_endpoint="http://10.0.0.9:4318")
    assert destination(own, {BASE: HERE}) == "http://10.0.0.9:4318/v1/traces"
    assert destination(own, {"OTEL_SDK_DISABLED": "true"}) is None


@pytest.mark.parametrize(
    ("environment", "settings", "says"),
    [
        ({BASE: "127.0.0.1:4318"}, {}, "no address of a collector"),
        ({BASE: HERE, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, {}, "asks for grpc"),
        ({BASE: HERE}, {"journal_bytes": "0"}, "made of the journal"),
    ],
)
def test_variables_that_cannot_be_followed_are_a_line_in_the_log(
    environment: dict[str, str], settings: dict[str, str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert destination(config(**settings), environment) is None
    (line,) = caplog.records
    assert says in line.__dict__["fields"]["reason"]


@pytest.mark.parametrize("settings", [{"traces_endpoint": "nowhere"}, {"traces_endpoint": HERE, "journal_bytes": "0"}])
def test_a_setting_that_cannot_be_followed_stops_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"tallystick\.traces\.endpoint: "):
        destination(config(**settings), {})


def test_what_is_not_installed_stops_only_who_asked_for_it() -> None:
    refuse(config(), "traces need opentelemetry.")
    with pytest.raises(ConfigError, match="traces need"):
        refuse(config(traces_endpoint=HERE), "traces need opentelemetry.")
