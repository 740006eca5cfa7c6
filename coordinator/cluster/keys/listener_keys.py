"""Keys of one listener: `listener.name.NAME.KEY` says of the listener NAME what KEY says of all (KIP-103), and
`listener.name.NAME.MECHANISM.KEY` of one SASL mechanism there. Names of listeners are in lower case here, as in Kafka.
"""

from collections.abc import Mapping
from dataclasses import replace

from coordinator.cluster.keys.config_types import ConfigKey, Synonym

LISTENER_PREFIX = "listener.name."
FAMILIES = ("ssl.", "sasl.")
"""Every key that begins so can be said of one listener."""
OTHERS = frozenset(
    (
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "max.connection.creation.rate",
        "max.connections",
        "principal.builder.class",
    )
)
MECHANISMS = frozenset(("gssapi", "oauthbearer", "plain", "scram-sha-256", "scram-sha-512"))


def name_of(listener: str, name: str, mechanism: str = "") -> str:
    """What `name` is called where it is said of one listener, or of one SASL mechanism of it."""
    between = f"{mechanism.lower()}." if mechanism else ""
    return f"{LISTENER_PREFIX}{listener.lower()}.{between}{name}"


def key_of_listener(name: str, keys: Mapping[str, ConfigKey]) -> ConfigKey | None:
    """The key of a name that begins with `listener.name.`; where nothing is said there, the key of all listeners is
    asked. None where there is no such key, or it cannot be said of one listener."""
    listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    mechanism, _, behind = rest.partition(".")
    if mechanism in MECHANISMS:
        key = keys.get(behind)
        wider = [Synonym(f"{LISTENER_PREFIX}{listener}.{behind}"), Synonym(behind)]
    else:
        key = keys.get(rest)
        wider = [Synonym(rest)]
    if key is None or not listener or not (key.name.startswith(FAMILIES) or key.name in OTHERS):
        return None
    return replace(key, name=name, default=None, synonyms=(*wider, *key.synonyms))
