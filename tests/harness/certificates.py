"""Certificates for a test, in a folder of its own: an authority, a server's, those of clients."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from cryptography.x509.oid import NameOID

from tallystick.certificates import Authority

HOSTS = ("localhost", "127.0.0.1")
STORE_PASSWORD = "store-secret"
MONTH = timedelta(days=30)


class Certificates:
    """`server.pem` is made at once; `path` of anything else is its file."""

    def __init__(self, folder: Path, *, name: str = "test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = Authority.make(name)
        self.path("ca").write_bytes(self.authority.issued.certificate_pem)
        self.issue("server", hosts=HOSTS)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = (),
        common_name: str | None = None,
        ended: bool = False,
        lasts: timedelta = MONTH,
    ) -> Path:
        """Key and certificate in one file; `ended`: it ran out yesterday."""
        begins = datetime.now(UTC) - timedelta(days=2) if ended else None
        lasts = timedelta(days=1) if ended else lasts
        subject = [(NameOID.ORGANIZATION_NAME, "tests"), (NameOID.COMMON_NAME, common_name or name)]
        issued = self.authority.issue(subject, hosts=hosts, begins=begins, lasts=lasts)
        path = self.path(name)
        beside = path.with_suffix(".new")
        beside.write_bytes(issued.key_pem + issued.certificate_pem)
        beside.replace(path)
        return path

    def settings(self, *, client_auth: str = "none", prefix: str = "") -> dict[str, str]:
        """For a broker."""
        said = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.path("server")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.path("ca")),
            "ssl.client.auth": client_auth,
        }
        return {prefix + name: value for name, value in said.items()}

    def pkcs12_settings(self, *, client_auth: str, prefix: str) -> dict[str, str]:
        """The same, with stores as Java has them."""
        said = {"ssl.client.auth": client_auth} | self.pkcs12_of_a_client("server")
        return {prefix + name: value for name, value in said.items()}

    def pkcs12_of_a_client(self, name: str) -> dict[str, str]:
        """The settings of one that shows this certificate, with stores as Java has them."""
        own, authority = self.path(name).read_bytes(), self.authority.issued.certificate
        key, certificate = load_pem_private_key(own, None), load_pem_x509_certificate(own)
        locked = BestAvailableEncryption(STORE_PASSWORD.encode())
        keys, trusted = self.folder / f"{name}.p12", self.folder / "trusted.p12"
        assert isinstance(key, EllipticCurvePrivateKey)
        keys.write_bytes(pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [authority], locked))
        trusted.write_bytes(pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"ca")], locked))
        said = {"ssl.key.password": STORE_PASSWORD}
        for store, path in (("keystore", keys), ("truststore", trusted)):
            said |= {f"ssl.{store}.type": "PKCS12", f"ssl.{store}.location": str(path)}
            said[f"ssl.{store}.password"] = STORE_PASSWORD
        return said

    def client_context(self, name: str | None = None) -> ssl.SSLContext:
        """What a client trusts, and what it shows."""
        context = ssl.create_default_context(cafile=str(self.path("ca")))
        if name is not None:
            context.load_cert_chain(self.path(name))
        return context
