"""Short words for tables of keys: kinds of values, and keys that are fixed while the broker runs, or are not."""

from coordinator.cluster.keys.config_types import Check, ConfigKey, ConfigType, Scope, Synonym

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)

ASSIGNMENT_INTERVAL = "assignment.interval.ms"
"""Of each kind of groups the one bounded setting that may change while the broker runs."""


def fixed(
    name: str,
    kind: ConfigType,
    default: str | None,
    documentation: str,
    check: Check | None = None,
    synonyms: tuple[Synonym, ...] = (),
) -> ConfigKey:
    return ConfigKey(name, kind, default, documentation, check, Scope.READ_ONLY, synonyms)


def dynamic(
    name: str,
    kind: ConfigType,
    default: str | None,
    documentation: str,
    check: Check | None = None,
    synonyms: tuple[Synonym, ...] = (),
) -> ConfigKey:
    return ConfigKey(name, kind, default, documentation, check, Scope.CLUSTER_WIDE, synonyms)


def per_broker(
    name: str, kind: ConfigType, default: str | None, documentation: str, check: Check | None = None
) -> ConfigKey:
    return ConfigKey(name, kind, default, documentation, check, Scope.PER_BROKER)
