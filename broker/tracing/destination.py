"""Whether transactions are traced, and where to: the setting of ours, or OpenTelemetry's variables.

A setting is meant for this broker: one that cannot be followed stops the start. Variables are often given to everything
on a machine: what they ask for in vain is a sentence in the log.
"""

from collections.abc import Mapping

from broker.config.broker_config import BrokerConfig
from broker.config.sources import ConfigError
from broker.process.logging import EventLog

ENDPOINT = "tallystick.traces.endpoint"
PATH = "v1/traces"
SPOKEN = "http/protobuf"

_log = EventLog("tracing")


class NoTraces(Exception):
    """What was asked for cannot be; in a sentence."""


def destination(config: BrokerConfig, environment: Mapping[str, str]) -> str | None:
    """The address that traces are posted to; None where nobody wants any. Raises `ConfigError`."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    own = config.get_str(ENDPOINT).strip()
    try:
        found = _below(own) if own else _from_environment(environment)
        if found is not None and not config.get_int("tallystick.journal.bytes"):
            raise NoTraces("traces are made of the journal, and tallystick.journal.bytes is 0.")
    except NoTraces as problem:
        refuse(config, str(problem))
        return None
    return found


def refuse(config: BrokerConfig, sentence: str) -> None:
    """Raises `ConfigError` where the setting asked for traces; otherwise it is said in the log."""
    if config.get_str(ENDPOINT).strip():
        raise ConfigError(f"{ENDPOINT}: {sentence}")
    _log.warning("no traces", reason=sentence)


def _from_environment(environment: Mapping[str, str]) -> str | None:
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    whole = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if not (whole or base) or "otlp" not in [one.strip() for one in exporters.split(",")]:
        return None
    protocol = (
        environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "").strip()
        or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()
        or SPOKEN
    )
    if protocol != SPOKEN:
        raise NoTraces(f"OTLP is spoken as {SPOKEN}, and the environment asks for {protocol}.")
    return _checked(whole) if whole else _below(base)


def _below(base: str) -> str:
    return f"{_checked(base).rstrip('/')}/{PATH}"


def _checked(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise NoTraces(f"{address!r} is no address of a collector; it should look like http://127.0.0.1:4318.")
    return address
