"""Certificates for a first try and for tests: an authority of one's own, and what it vouches for.

Not for a network that matters: the authority's key lies beside what it signed, without a password.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca.key"
EARLIER = timedelta(hours=1)
"""Clocks differ."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """PKCS #8, without a password."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates."""

    issued: Issued

    @classmethod
    def make(cls, name: str, days: int = 3650) -> "Authority":
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key, None, timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        return cls(Issued(builder.sign(key, SHA256()), key))

    @classmethod
    def read(cls, folder: Path) -> "Authority":
        """The one that was written to a folder."""
        certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
        key = load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(Issued(certificate, key))

    def issue(
        self,
        name: Sequence[tuple[x509.ObjectIdentifier, str]],
        *,
        hosts: Sequence[str] = (),
        begins: datetime | None = None,
        lasts: timedelta = timedelta(days=30),
    ) -> Issued:
        """A certificate for a server where hosts are named, else for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in name])
        builder = _builder(subject, self.issued.certificate.subject, key, begins, lasts)
        # A server is a client of other servers: nodes show one another the one certificate that they have.
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH] if hosts else []
        purposes.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        vouched = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.issued.key.public_key())
        builder = builder.add_extension(vouched, critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False)
        return Issued(builder.sign(self.issued.key, SHA256()), key)


def make_for_development(folder: Path, *, hosts: Sequence[str], clients: Sequence[str], days: int) -> list[Path]:
    """Write `ca.pem`, `ca.key`, `server.pem` and `NAME.pem` for each client. An authority that is there stays, and what
    it vouched for stays good. Returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def write(name: str, data: bytes, *, secret: bool) -> None:
        path = folder / name
        path.unlink(missing_ok=True)
        mode = 0o600 if secret else 0o644
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as target:
            target.write(data)
        written.append(path)

    if (folder / AUTHORITY_KEY).exists():
        authority = Authority.read(folder)
    else:
        authority = Authority.make("Tallystick development CA")
        write(AUTHORITY_KEY, authority.issued.key_pem, secret=True)
        write(AUTHORITY, authority.issued.certificate_pem, secret=False)
    lasts = timedelta(days=days)
    named = [("server", hosts), *((client, ()) for client in clients)]
    for name, reached_as in named:
        common = reached_as[0] if reached_as else name
        issued = authority.issue([(NameOID.COMMON_NAME, common)], hosts=reached_as, lasts=lasts)
        write(f"{name}.pem", issued.key_pem + issued.certificate_pem, secret=True)
    return written


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: datetime | None,
    lasts: timedelta,
) -> x509.CertificateBuilder:
    begins = begins if begins is not None else datetime.now(UTC) - EARLIER
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begins)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.not_valid_after(begins + EARLIER + lasts).add_extension(identifier, critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
