"""Every configuration key, by name, and the questions asked of them together.

`TOPIC_KEYS` come from `topic_keys`, `BROKER_KEYS` from `broker_keys` (with an effect) and `inert_keys` (without).
Here: where a value that is not set comes from, which values contradict each other, what a change does to a list.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.cluster.keys.broker_keys import EFFECTIVE_KEYS
from coordinator.cluster.keys.config_types import (
    ConfigKey,
    ConfigSource,
    ConfigType,
    InvalidConfig,
    elements,
    render,
    replicas,
)
from coordinator.cluster.keys.group_keys import GROUP_KEYS, problem_with
from coordinator.cluster.keys.inert_keys import IGNORED_PREFIXES, INERT_KEYS
from coordinator.cluster.keys.key_tables import ASSIGNMENT_INTERVAL, dynamic
from coordinator.cluster.keys.listener_keys import LISTENER_PREFIX, key_of_listener
from coordinator.cluster.keys.tls_keys import TLS_KEYS
from coordinator.cluster.keys.topic_keys import TOPIC_KEYS

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "Layers",
    "Resolved",
    "SynonymValue",
    "broker_key",
    "check_assignment_intervals",
    "check_group_values",
    "check_topic_values",
    "is_ignored",
]

BROKER_KEYS: dict[str, ConfigKey] = {key.name: key for key in (*EFFECTIVE_KEYS, *TLS_KEYS, *INERT_KEYS)}
CLIENT_METRICS_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        dynamic("interval.ms", ConfigType.INT, "300000", "How often clients send metrics, in ms."),
        dynamic(
            "match",
            ConfigType.LIST,
            "",
            "Of which clients: a regular expression for each attribute that counts.",
        ),
        dynamic("metrics", ConfigType.LIST, "", "Beginnings of the names of metrics that they send; `*` means all."),
    )
}
"""Of a subscription to metrics of clients (KIP-714)."""

ValueLayer = tuple[ConfigSource, Mapping[str, str]]
"""Texts by key, and where they come from."""


def broker_key(name: str) -> ConfigKey | None:
    """The key of this name, that of one listener included; None where there is none."""
    key = BROKER_KEYS.get(name)
    return key_of_listener(name, BROKER_KEYS) if key is None and name.startswith(LISTENER_PREFIX) else key


def is_ignored(name: str) -> bool:
    """A key of Kafka's that concerns what this broker does not have."""
    return name.startswith(IGNORED_PREFIXES)


@dataclass(frozen=True, slots=True)
class SynonymValue:
    """One place a value could come from, and what is said there."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Resolved:
    """What holds for a key: the first of its synonyms (KIP-226), or nothing."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    synonyms: tuple[SynonymValue, ...]


class Layers:
    """Broker values, the highest layer first; the defaults of the table are below all of them."""

    def __init__(self, layers: tuple[ValueLayer, ...]) -> None:
        self._layers = layers
        self._inherited: dict[str, Resolved] = {}
        """What topic keys have where a topic says nothing itself. Layers do not change: others are made."""

    def broker(self, key: ConfigKey) -> Resolved:
        """What holds for a broker key."""
        said = self._said(key, ((key.name, 1), *((one.name, one.factor) for one in key.synonyms)))
        if said:
            return Resolved(key, said[0][1], said[0][0].source, tuple(one for one, _ in said))
        return Resolved(key, None, ConfigSource.DEFAULT, ())

    def topic(self, key: ConfigKey, overrides: Mapping[str, str]) -> Resolved:
        """What holds for a topic key, given the topic's own settings."""
        if key.name in overrides:
            return self._resolve(key, overrides)
        found = self._inherited.get(key.name)
        if found is None:
            found = self._inherited[key.name] = self._resolve(key, {})
        return found

    def group(self, key: ConfigKey, overrides: Mapping[str, str]) -> Resolved:
        """What holds for a key of groups, given the group's own settings."""
        said = self._said(key, tuple((one.name, one.factor) for one in key.synonyms))
        if not said and key.default is not None:
            said = [(SynonymValue(key.name, key.default, ConfigSource.DEFAULT), key.default)]
        if key.name in overrides:
            own = SynonymValue(key.name, _shown(key, overrides[key.name]), ConfigSource.DYNAMIC_GROUP)
            said.insert(0, (own, own.value))
        return Resolved(key, said[0][1], said[0][0].source, tuple(one for one, _ in said))

    def _resolve(self, key: ConfigKey, overrides: Mapping[str, str]) -> Resolved:
        said: list[tuple[SynonymValue, str]] = []
        if key.name in overrides:
            text = _shown(key, overrides[key.name])
            said.append((SynonymValue(key.name, text, ConfigSource.DYNAMIC_TOPIC), text))
        said += self._said(key, tuple((one.name, one.factor) for one in key.synonyms))
        if said:
            # Of the defaults Kafka names that of the first synonym alone, and none where it has none.
            named = tuple(
                one for one, _ in said if one.source is not ConfigSource.DEFAULT or one.name == key.synonyms[0].name
            )
            return Resolved(key, said[0][1], said[0][0].source, named)
        return Resolved(key, key.default, ConfigSource.DEFAULT, ())

    def _said(self, key: ConfigKey, names: tuple[tuple[str, int], ...]) -> list[tuple[SynonymValue, str]]:
        """Every place that says something, most binding first, with the value in the unit of `key`.

        Names before layers: `log.retention.ms` in the file outweighs a dynamic `log.retention.minutes`.
        """
        said: list[tuple[SynonymValue, str]] = []
        defaults: list[tuple[SynonymValue, str]] = []
        for name, factor in names:
            asked = broker_key(name)
            assert asked is not None, name
            for source, values in self._layers:
                if name in values:
                    text = values[name]
                    said.append((SynonymValue(name, text, source), _scaled(key, asked, text, factor)))
            if asked.default is not None:
                synonym = SynonymValue(name, asked.default, ConfigSource.DEFAULT)
                defaults.append((synonym, _scaled(key, asked, asked.default, factor)))
        return said + defaults


def _shown(key: ConfigKey, text: str) -> str:
    """What was set, as Kafka says it: a text that was read and written back."""
    if key.type is ConfigType.LIST:
        return ",".join(part.strip() for part in text.split(","))
    try:
        return render(key.parse(text))
    except InvalidConfig:  # it was set when it could be
        return text


def _scaled(key: ConfigKey, source: ConfigKey, text: str, factor: int) -> str:
    value = source.parse(text)
    if factor != 1 and isinstance(value, int) and value > 0:
        value *= factor
    return text.strip() if key.type in (ConfigType.PASSWORD, ConfigType.DOUBLE) else render(value)


BOUNDS_OF_GROUPS = tuple(
    f"group.{kind}.{bound}." for kind in ("consumer", "share", "streams") for bound in ("min", "max")
)


def _number(key: ConfigKey, text: str | None) -> int:
    value = key.parse(text or "")
    assert isinstance(value, int)
    return value


def check_group_values(overrides: Mapping[str, str], layers: Layers) -> None:
    """The settings of a group, as a whole. Raises `InvalidConfig`."""
    for name in overrides:
        if name not in GROUP_KEYS:
            raise InvalidConfig(f"Unknown group config name: {name}")

    parsed = {name: key.parse(layers.group(key, overrides).value or "") for name, key in GROUP_KEYS.items()}
    values = {name: value for name, value in parsed.items() if isinstance(value, int)}
    keys = [key for key in BROKER_KEYS.values() if key.name.startswith(BOUNDS_OF_GROUPS)]
    problem = problem_with(values, {key.name: _number(key, layers.broker(key).value) for key in keys})
    if problem is not None:
        raise InvalidConfig(problem)


def check_assignment_intervals(values: Mapping[str, str], layers: Layers) -> None:
    """How often groups of each kind are assigned, of the settings of brokers; the bounds are fixed. Raises
    `InvalidConfig`."""
    for kind in ("consumer", "share", "streams"):
        name, *bounds = (f"group.{kind}.{bound}{ASSIGNMENT_INTERVAL}" for bound in ("", "min.", "max."))
        if name in values:
            wanted = _number(BROKER_KEYS[name], values[name])
            low, high = (_number(BROKER_KEYS[bound], layers.broker(BROKER_KEYS[bound]).value) for bound in bounds)
            if wanted < low:
                raise InvalidConfig(f"{name} must be greater than or equal to {bounds[0]}")
            if wanted > high:
                raise InvalidConfig(f"{name} must be less than or equal to {bounds[1]}")


def check_topic_values(overrides: Mapping[str, str], layers: Layers) -> None:
    """Refuse a topic's settings that are unknown, unreadable or contradict each other. Raises `InvalidConfig`."""
    for name, text in overrides.items():
        if name not in TOPIC_KEYS:
            raise InvalidConfig(f"Unknown topic config name: {name}")
        key = TOPIC_KEYS[name]
        key.parse(text)
        if key.type is ConfigType.LIST and key.check is not replicas:
            elements(name, text)
    shortest, longest = (
        layers.topic(TOPIC_KEYS[name], overrides).value for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if shortest is not None and longest is not None and int(shortest) > int(longest):
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if overrides.get("remote.storage.enable", "false").strip().lower() == "true":
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
