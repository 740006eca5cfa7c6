"""The kinds of configuration values: how a text is read, checked and written back.

Values travel and are stored as text; this file says what a text means. Sentences of refusal are Kafka's own, for
tools show them and people search for them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

ConfigValue = bool | int | float | str | tuple[str, ...]
Check = Callable[[ConfigValue], str | None]
"""Returns what is wrong with a value, or None."""


class ConfigType(IntEnum):
    """Numbers as DescribeConfigs sends them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from; numbers as DescribeConfigs sends them."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class Scope(Enum):
    """How a broker key may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class InvalidConfig(Exception):
    """A value that cannot be what its key asks for."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """Another key that says the same, in a unit `factor` times as large."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. `default` is text; None means "not set". `synonyms` are asked, in order, where it is not set itself."""

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    check: Check | None = None
    scope: Scope = Scope.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    effective: bool = True
    """False: understood, and without effect in this broker."""

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """Read and check a value. Raises `InvalidConfig` with Kafka's sentence."""
        value = parse(self.name, self.type, text)
        problem = self.check(value) if self.check is not None else None
        if problem is not None:
            shown = problem.partition("\0")
            culprit, sentence = (shown[0], shown[2]) if shown[1] else (render(value), problem)
            culprit = "[hidden]" if self.sensitive else culprit
            raise InvalidConfig(f"Invalid value {culprit} for configuration {self.name}: {sentence}")
        return value


_REPLICA = re.compile("[0-9]+:[0-9]+")
LIMITS = {ConfigType.INT: 31, ConfigType.SHORT: 15, ConfigType.LONG: 63}
"""How many bits a positive number may have."""


def parse(name: str, kind: ConfigType, text: str) -> ConfigValue:
    """Read a text as a value of `kind`, without the checks of a key."""
    if kind is ConfigType.BOOLEAN:
        lowered = text.strip().lower()
        if lowered not in ("true", "false"):
            raise InvalidConfig(
                f"Invalid value {text} for configuration {name}: Expected value to be either true or false"
            )
        return lowered == "true"
    if kind is ConfigType.LIST:
        parts = (part.strip() for part in text.split(","))
        return tuple(part for part in parts if part)
    if kind in LIMITS:
        return _whole_number(name, kind, text)
    if kind is ConfigType.DOUBLE:
        try:
            if not text.isascii() or "_" in text:  # What Python would take, too.
                raise ValueError(text)
            return float(text)
        except ValueError:
            raise InvalidConfig(f"Invalid value {text} for configuration {name}: Not a number of type DOUBLE") from None
    return text.strip()


def _whole_number(name: str, kind: ConfigType, text: str) -> int:
    stripped = text.strip()
    digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
    # Python would also take "1_000" and digits of other scripts.
    if digits.isascii() and digits.isdigit() and len(digits) < 20:
        number = int(stripped)
        bound = 1 << LIMITS[kind]
        if -bound <= number < bound:
            return number
    raise InvalidConfig(f"Invalid value {text} for configuration {name}: Not a number of type {kind.name}")


def elements(name: str, text: str) -> tuple[str, ...]:
    """Of a list, none of which may be empty. Raises `InvalidConfig`."""
    if not text.strip():
        return ()
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
    return parts


def render(value: ConfigValue) -> str:
    """A value as DescribeConfigs shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return "NaN" if value != value else str(value)


def between(low: float, high: float) -> Check:
    """A number in `low`..`high`, both included."""

    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, int | float)
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return check


def at_least(low: int) -> Check:
    """A number not below `low`."""
    return between(low, float("inf"))


def unlimited_or_positive(value: ConfigValue) -> str | None:
    """-1, or a number above 0. With 0 every record of every topic would go at once; Kafka refuses it of a broker, and
    takes it of a topic."""
    assert isinstance(value, int)
    return None if value == -1 or value >= 1 else "Value must be unlimited (-1) or at least 1"


def lets_somebody_in(value: ConfigValue) -> str | None:
    """A number of connections of which there may be one. Kafka refuses 0 as a dynamic value, for no
    client could connect any more to take it back."""
    assert isinstance(value, int)
    return "Value must be at least 1, or nobody could connect" if value < 1 else None


def one_of(*allowed: str) -> Check:
    """One of a few words."""

    def check(value: ConfigValue) -> str | None:
        return None if value in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def one_of_in_any_case(*allowed: str) -> Check:
    """One of a few words, however it is written."""

    def check(value: ConfigValue) -> str | None:
        known = isinstance(value, str) and value.lower() in allowed
        return None if known else f"String must be one of (case insensitive): {', '.join(map(str.upper, allowed))}"

    return check


def each_of(*allowed: str, empty: bool = True) -> Check:
    """A list of some of a few words."""

    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, tuple)
        for word in value:
            if word not in allowed:
                return f"{word}\0String must be one of: {', '.join(allowed)}"
        return None if value or empty else "Configuration must not be empty"

    return check


def replicas(value: ConfigValue) -> str | None:
    """All of a topic, or some of its partitions on brokers."""
    assert isinstance(value, tuple)
    if value == ("*",) or all(_REPLICA.fullmatch(word) for word in value):
        return None
    return (
        "It must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def not_empty(value: ConfigValue) -> str | None:
    """A text or list with something in it."""
    return None if value else "Value must not be empty"


def default_or_between(low: int, high: int) -> Check:
    """-1 (the codec's own default) or a number in a range."""

    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, int)
        return None if value == -1 or low <= value <= high else f"Value must be between {low} and {high} or equal to -1"

    return check
