"""What a console is started with, and who may reach it."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tallystick.client.security import Credentials, Security
from tallystick.client.security_settings import security_of

_LOCAL_NAMES = frozenset({"localhost", "ip6-localhost"})


class BadOptions(Exception):
    """A console that is not to be started like this; the message is for the operator."""


@dataclass(frozen=True, slots=True)
class Options:
    """See the options of `tallystick console`."""

    bootstrap: str
    host: str
    port: int
    settings: Mapping[str, str]
    """Of a client, in Kafka's words."""
    http_url: str | None = None
    http_token_file: str | None = None
    registry_url: str | None = None
    allowed_hosts: frozenset[str] = frozenset()
    certificate: str | None = None
    key: str | None = None
    ready_file: Path | None = None
    ends_with_stdin: bool = False

    def __post_init__(self) -> None:
        if not self.asks_login and not is_loopback(self.host):
            raise BadOptions(
                f"a console on {self.host} would be open to whoever reaches it: let it listen on 127.0.0.1, or speak "
                "to brokers that want SASL (--security-protocol SASL_SSL), and visitors have to log in"
            )

    @property
    def asks_login(self) -> bool:
        """Whether visitors say who they are; otherwise all of them are who the settings say."""
        protocol = self.settings.get("security.protocol", "PLAINTEXT").upper()
        return protocol.startswith("SASL") and not self.settings.get("sasl.jaas.config")

    @property
    def is_encrypted(self) -> bool:
        return self.certificate is not None

    def security(self, credentials: Credentials | None = None) -> Security:
        """How the brokers are spoken to: as the settings say, or as somebody who logged in. Raises `BadSettings`."""
        if credentials is None:
            return security_of(self.settings)
        encrypts = self.settings.get("security.protocol", "").upper().endswith("SSL")
        return Security(
            security_of({**self.settings, "security.protocol": "SSL" if encrypts else "PLAINTEXT"}).tls, credentials
        )


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    if host.lower() in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether this is a number. A page of somebody else's can make its own name mean this machine (DNS rebinding), and
    no number: a request that was sent to a number is no such page's."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() in _LOCAL_NAMES
    return True
