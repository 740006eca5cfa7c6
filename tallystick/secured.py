"""What a broker for tests needs to speak TLS, and its clients to trust it: certificates of its own, in its folder.

Importing this needs nothing; `Secured` needs the extra `security`.
"""

from collections.abc import Mapping
from pathlib import Path

from tallystick.control import NotDone

HOSTS = ("127.0.0.1", "localhost")
_DAYS = 30


class Secured:
    """Made for a folder; what lies there already is kept. Raises `NotDone` where the extra is not installed."""

    def __init__(self, folder: Path) -> None:
        try:
            from tallystick.certificates import AUTHORITY, make_for_development
        except ImportError as missing:
            raise NotDone(f"TLS needs pip install 'tallystick[security]' ({missing})") from None
        self.authority = folder / AUTHORITY
        """The certificate that clients are to trust."""
        self._server = folder / "server.pem"
        self.command_config = folder / "client.properties"
        """Settings of a client, as Kafka's tools and ours take them."""
        if not self.command_config.exists():
            make_for_development(folder, hosts=HOSTS, clients=(), days=_DAYS)
            lines = {"security.protocol": "SSL", **self._trusted}
            self.command_config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    @property
    def settings(self) -> Mapping[str, str]:
        """Of the broker, whose nodes, where it is several, are clients of one another."""
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._server), **self._trusted}

    @property
    def _trusted(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}

    @property
    def client_settings(self) -> Mapping[str, str]:
        """Of a client that is built on librdkafka."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)}
