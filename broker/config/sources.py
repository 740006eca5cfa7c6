"""Where a broker's settings come from: a `server.properties` file, `KAFKA_*` variables, `--set key=value`.

Each source is read into a plain table of texts; `broker_config` lays them over each other and checks them.
Nothing here reads the environment, and no file but those that hold passwords: the texts are handed in.
"""

import re
from collections.abc import Iterable, Mapping

from coordinator.cluster.keys.config_keys import broker_key, is_ignored
from protocol.properties import BadProperties, read_properties


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
LOGIN_FILE = re.compile(r"(?:^|\s)-Djava\.security\.auth\.login\.config==?(?:file:(?://)?)?(\S+)")
"""In `KAFKA_OPTS`, the one thing that is about the broker: where its users are, as the official image has it."""


def read_file(text: str, *, where: str) -> dict[str, str]:
    """Read the text of a `server.properties`. Raises `ConfigError`."""
    try:
        return read_properties(text)
    except BadProperties as problem:
        raise ConfigError(f"{where}, {problem}.") from None


SECRETS_FOLDER = "/etc/kafka/secrets"
"""Where the official image has its key stores mounted."""
STORE_VARIABLES = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
PASSWORD_VARIABLES = {
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
    "KAFKA_TALLYSTICK_ADD_SCRAM_CREDENTIALS": "tallystick.add.scram",
}
"""Its variables that name files in that folder: stores, and texts with a password. The last is ours."""


def read_environment(environment: Mapping[str, str], *, secrets: str = SECRETS_FOLDER) -> dict[str, str]:
    """Read `KAFKA_*` variables by the official image's rules: `_` is `.`, `__` is `_`, `___` is `-`;
    its names of files with key stores and passwords; and its `CLUSTER_ID`."""
    values: dict[str, str] = {}
    for variable in sorted(environment):
        if variable in STORE_VARIABLES:
            values[STORE_VARIABLES[variable]] = f"{secrets}/{environment[variable]}"
        elif variable in PASSWORD_VARIABLES:
            values[PASSWORD_VARIABLES[variable]] = _text_of(variable, f"{secrets}/{environment[variable]}").rstrip("\n")
        elif variable.startswith("KAFKA_") and variable not in NOT_SETTINGS:
            values[key_of_variable(variable)] = environment[variable]
    if "CLUSTER_ID" in environment:
        values["cluster.id"] = environment["CLUSTER_ID"]
    return values


def read_login_file(environment: Mapping[str, str]) -> str | None:
    """The text of the JAAS file that `KAFKA_OPTS` names, if it names one. Raises `ConfigError`."""
    named = LOGIN_FILE.search(environment.get("KAFKA_OPTS", ""))
    return None if named is None else _text_of("KAFKA_OPTS", named[1])


def _text_of(variable: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as source:
            return source.read()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{variable}: {path} cannot be read.") from None


def read_token(path: str, *, where: str) -> str:
    """The token in a file, without the end of its line. Raises `ConfigError`."""
    token = _text_of(where, path).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{where}: {path} is to hold one token, without spaces.")
    return token


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
