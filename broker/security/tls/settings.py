"""What the settings of one listener say of TLS, as one value that can be compared."""

from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig
from broker.config.security_protocols import SecurityProtocol
from coordinator.cluster.keys.config_types import ConfigValue
from coordinator.cluster.keys.listener_keys import name_of
from keystores.configured import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Of one listener."""

    listener: str
    keys: Store
    trust: Store
    client_auth: str
    versions: tuple[str, ...]
    suites: tuple[str, ...]
    rules: str
    names_from_certificates: bool
    """Whether a client is who its certificate says; where it authenticates by SASL it is not."""
    name_may_change: bool
    alternatives_may_go: bool

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.keys.path, self.trust.path) if path is not None)


def tls_settings(config: BrokerConfig, listener: str) -> TlsSettings:
    """Read them as they hold now."""

    def said(name: str) -> ConfigValue | None:
        return config.of_listener(listener, f"ssl.{name}")

    def text(name: str) -> str | None:
        value = said(name)
        return value if isinstance(value, str) and value else None

    def words(name: str) -> tuple[str, ...]:
        value = said(name)
        return value if isinstance(value, tuple) else ()

    protocol = config.security_protocol(listener)
    client_auth = text("client.auth")
    if protocol is SecurityProtocol.SASL_SSL:  # KIP-684: what is said of all listeners does not hold for this one
        source = config.resolve(name_of(listener, "ssl.client.auth")).synonyms[0].name
        client_auth = client_auth if source == name_of(listener, "ssl.client.auth") else "none"
    return TlsSettings(
        listener=listener,
        keys=Store(
            kind=text("keystore.type") or "JKS",
            path=text("keystore.location"),
            password=text("keystore.password"),
            text=text("keystore.certificate.chain"),
            key=text("keystore.key"),
            key_password=text("key.password"),
        ),
        trust=Store(
            kind=text("truststore.type") or "JKS",
            path=text("truststore.location"),
            password=text("truststore.password"),
            text=text("truststore.certificates"),
        ),
        client_auth=(client_auth or "none").lower(),
        versions=words("enabled.protocols"),
        suites=words("cipher.suites"),
        rules=text("principal.mapping.rules") or "DEFAULT",
        names_from_certificates=protocol is SecurityProtocol.SSL,
        name_may_change=said("allow.dn.changes") is True,
        alternatives_may_go=said("allow.san.changes") is True,
    )
