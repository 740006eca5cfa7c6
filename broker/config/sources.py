"""Where a broker's settings come from: a `server.properties` file, `KAFKA_*` variables, `--set key=value`.

Each source is read into a plain table of texts; `broker_config` lays them over each other and checks them.
Nothing here opens a file or reads the environment: the texts are handed in.
"""

from collections.abc import Iterable, Mapping

from coordinator.cluster.keys.config_keys import broker_key, is_ignored


class ConfigError(Exception):
    """The settings cannot be used; the text is a sentence for the person who wrote them."""


NOT_SETTINGS = frozenset(
    (
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
        "KAFKA_HOME",
        "KAFKA_DEBUG",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
    )
)
"""Variables of the official image that are about the Java process, not about the broker."""


def read_properties(text: str, *, where: str) -> dict[str, str]:
    """Read Java's properties format: `key=value`, `key: value` or `key value`, `#` and `!` comments, lines continued
    with a backslash, the escapes \\t \\n \\r \\f \\uXXXX."""
    values: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            values[_unescape(key)] = _unescape(value)
        except ValueError:
            raise ConfigError(f"{where}, line {number}: a malformed \\u escape.") from None
    return values


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    pending = ""
    first = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\" or position + 1 == len(text):
            parts.append(character)
            position += 1
        elif text[position + 1] == "u":
            digits = text[position + 2 : position + 6]
            if len(digits) != 4:
                raise ValueError(text)
            parts.append(chr(int(digits, 16)))
            position += 6
        else:
            parts.append(_ESCAPES.get(text[position + 1], text[position + 1]))
            position += 2
    return "".join(parts)


def read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Read `KAFKA_*` variables by the official image's rules: `_` is `.`, `__` is `_`, `___` is `-`;
    and its `CLUSTER_ID`."""
    values: dict[str, str] = {}
    for variable in sorted(environment):
        if variable.startswith("KAFKA_") and variable not in NOT_SETTINGS:
            values[key_of_variable(variable)] = environment[variable]
    if "CLUSTER_ID" in environment:
        values["cluster.id"] = environment["CLUSTER_ID"]
    return values


def key_of_variable(variable: str) -> str:
    """`KAFKA_LOG_SEGMENT_BYTES` → `log.segment.bytes`."""
    name = variable.removeprefix("KAFKA_").lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def read_settings(settings: Iterable[str]) -> dict[str, str]:
    """Read `key=value` of the command line; an unknown key is an error, for it was typed a moment ago."""
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set takes key=value, not {setting!r}.")
        values[key.strip()] = value.strip()
    for key in values:
        if broker_key(key) is None and not is_ignored(key):
            raise ConfigError(f"There is no setting called {key!r}.")
    return values
