"""Users from a JAAS file, as `java.security.auth.login.config` names one to Kafka: the section `LISTENER.KafkaServer`
(the name of the listener in lower case), else `KafkaServer`, says for each mechanism of a listener what
`listener.name.LISTENER.MECHANISM.sasl.jaas.config` would say, where that says nothing.
"""

from collections.abc import Iterable

from broker.config.sources import ConfigError
from coordinator.cluster.keys.listener_keys import name_of
from protocol.sasl.jaas import BadJaas, read_login_file

SECTION = "KafkaServer"
_PACKAGE = "org.apache.kafka.common.security"
MECHANISMS = {
    f"{_PACKAGE}.plain.PlainLoginModule": ("PLAIN",),
    f"{_PACKAGE}.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}


def login_settings(text: str, listeners: Iterable[str]) -> dict[str, str]:
    """What a file says of listeners, as settings. Raises `ConfigError`."""
    try:
        sections = read_login_file(text)
    except BadJaas as problem:
        raise ConfigError(f"java.security.auth.login.config: {problem}.") from None
    settings: dict[str, str] = {}
    for listener in listeners:
        own = f"{listener.lower()}.{SECTION}"
        for module in sections.get(own, sections.get(SECTION, [])):
            for mechanism in MECHANISMS.get(module.name, ()):
                settings.setdefault(name_of(listener, "sasl.jaas.config", mechanism), module.line)
    return settings
