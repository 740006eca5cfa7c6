"""Subscriptions to metrics of clients (KIP-714): what each says of whom it is about and what is wanted, and how often.

Sentences and codes of refusals are Kafka's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.cluster.keys.config_keys import CLIENT_METRICS_KEYS
from coordinator.cluster.keys.config_types import InvalidConfig, elements
from coordinator.cluster.topic_rules import Refused
from protocol.errors import ErrorCode

INTERVAL, MATCH, METRICS = "interval.ms", "match", "metrics"
USUAL_INTERVAL_MS, SHORTEST_MS, LONGEST_MS = 300_000, 100, 3_600_000
ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a subscription may ask for of clients."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """`patterns` by attribute: a client is meant if each matches its whole value. `metrics` are beginnings of names."""

    interval_ms: int
    patterns: dict[str, str]
    metrics: tuple[str, ...]


def subscription_of(configs: Mapping[str, str]) -> Subscription:
    """What these settings say. Raises `InvalidConfig`."""
    patterns: dict[str, str] = {}
    for text in elements(MATCH, configs.get(MATCH, "")):
        attribute, sign, pattern = text.partition("=")
        if attribute.strip() not in ATTRIBUTES or not sign or not pattern or "=" in pattern:
            raise _illegal(text)
        patterns[attribute.strip()] = pattern.strip()
    interval_ms = CLIENT_METRICS_KEYS[INTERVAL].parse(configs.get(INTERVAL, str(USUAL_INTERVAL_MS)))
    assert isinstance(interval_ms, int)
    return Subscription(interval_ms, patterns, elements(METRICS, configs.get(METRICS, "")))


def check(configs: Mapping[str, str], understands: Callable[[str], bool]) -> None:
    """Refuse settings that make no subscription. `understands` says whether a regular expression is one here. Raises
    `Refused`."""
    for name in configs:
        if name not in CLIENT_METRICS_KEYS:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    try:
        found = subscription_of(configs)
        if not SHORTEST_MS <= found.interval_ms <= LONGEST_MS:
            message = (
                f"Invalid value {found.interval_ms} for {INTERVAL}, interval must be between "
                f"{SHORTEST_MS} and {LONGEST_MS} (1 hour)"
            )
            raise Refused(ErrorCode.INVALID_REQUEST, message)
        for attribute, pattern in found.patterns.items():
            if not understands(pattern):
                raise _illegal(f"{attribute}={pattern}")
    except InvalidConfig as problem:
        raise Refused(ErrorCode.INVALID_CONFIG, str(problem)) from None


def _illegal(text: str) -> InvalidConfig:
    return InvalidConfig(f"Illegal client matching pattern: {text}")
