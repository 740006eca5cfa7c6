"""Key stores and trust stores of Kafka's three kinds, as certificates and keys.

`ssl.keystore.type` says PEM or not. Whether another file is PKCS12 or JKS is seen from its first bytes, as Java does:
it reads either under both names.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from keystores import jks

CERTIFICATE = "CERTIFICATE"
_BLOCK = re.compile(r"-+\s*BEGIN\s+([A-Z0-9 ]+?)\s*-+(.*?)-+\s*END\s+\1\s*-+", re.DOTALL)
"""Kafka's form, which is wider than that of RFC 7468: a value in a properties file may be one long line."""
_HEADER = re.compile(r"\s*[^\r\n:]*:[^\r\n]*[\r\n]+")


class BadStore(Exception):
    """A store that cannot be used; a sentence without its end for the operator, and never a secret."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the broker says it is: its certificate first, then those that vouch for it; and the key (PEM, open)."""

    key: bytes
    chain: tuple[x509.Certificate, ...]

    @property
    def pem(self) -> bytes:
        """All of it, as OpenSSL reads it."""
        return self.key + b"".join(one.public_bytes(Encoding.PEM) for one in self.chain)


def identity_of_pem(key_text: str, chain_text: str, key_password: str | None) -> Identity:
    """A private key and a chain of certificates. Raises `BadStore`."""
    keys = [(name, body) for name, body in _blocks(key_text) if name.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise BadStore(f"it holds {len(keys)} private keys, not one")
    name, body = keys[0]
    secret = None if key_password is None or "ENCRYPTED" not in name + body else key_password.encode()
    try:
        key = load_pem_private_key(_block(name, body), secret)
    except TypeError:
        raise BadStore("its private key is encrypted, and there is no ssl.key.password") from None
    except (ValueError, ArithmeticError, UnsupportedAlgorithm):
        raise BadStore("its private key cannot be read; is ssl.key.password right?") from None
    return _identity(key, certificates_of_pem(chain_text))


def certificates_of_pem(text: str) -> list[x509.Certificate]:
    """In their order. Raises `BadStore`."""
    found = [_block(name, body) for name, body in _blocks(text) if name == CERTIFICATE]
    if not found:
        raise BadStore("it holds no certificate")
    try:
        return [x509.load_pem_x509_certificate(one) for one in found]
    except (ValueError, x509.InvalidVersion):
        raise BadStore("one of its certificates cannot be read") from None


def identity_of_file(data: bytes, password: str, key_password: str | None) -> Identity:
    """The first key of a PKCS12 or JKS; the key of a PKCS12 has no password of its own. Raises `BadStore`."""
    if data[:4] != jks.MAGIC:
        return _identity_of_pkcs12(data, password)
    store = _read_jks(data, password)
    if not store.keys:
        raise BadStore("it holds no private key")
    entry = store.keys[0]
    try:
        key = load_der_private_key(jks.recover_key(entry, key_password or password), None)
    except jks.UnreadableJks as problem:
        raise BadStore(str(problem)) from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadStore(f"its private key {entry.alias} cannot be read") from None
    return _identity(key, _certificates(entry.chain))


def certificates_of_file(data: bytes, password: str | None) -> list[x509.Certificate]:
    """The trusted certificates of a PKCS12 or JKS, with those of its keys. Raises `BadStore`."""
    if data[:4] == jks.MAGIC:
        store = _read_jks(data, password)
        found = _certificates([*store.certificates, *(entry.chain[0] for entry in store.keys if entry.chain)])
    else:
        opened = _open_pkcs12(data, password)
        kept = [*opened.additional_certs, *([opened.cert] if opened.cert is not None else [])]
        found = [one.certificate for one in kept]
    if not found:
        raise BadStore("it holds no certificate")
    return found


def _identity_of_pkcs12(data: bytes, password: str) -> Identity:
    opened = _open_pkcs12(data, password)
    if opened.key is None or opened.cert is None:
        raise BadStore("it holds no private key with a certificate")
    leaf, others = opened.cert.certificate, [one.certificate for one in opened.additional_certs]
    return _identity(opened.key, [leaf, *_issuers(leaf, others)])


def _open_pkcs12(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    if data.lstrip().startswith(b"-----BEGIN"):
        raise BadStore("it is PEM, and its type (ssl.keystore.type, ssl.truststore.type) says otherwise")
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise BadStore("it is neither a JKS nor a PKCS12 that opens with the password") from None


def _read_jks(data: bytes, password: str | None) -> jks.JavaKeyStore:
    try:
        return jks.read_jks(data, password)
    except jks.UnreadableJks as problem:
        raise BadStore(str(problem)) from None


def _certificates(encoded: Iterable[bytes]) -> list[x509.Certificate]:
    try:
        return [x509.load_der_x509_certificate(one) for one in encoded]
    except (ValueError, x509.InvalidVersion):
        raise BadStore("one of its certificates cannot be read") from None


def _issuers(leaf: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Those that vouch for a certificate, one after the other."""
    chain: list[x509.Certificate] = []
    below = leaf
    while below.issuer != below.subject:
        above = next((one for one in others if one.subject == below.issuer and one not in chain), None)
        if above is None:
            break
        chain.append(above)
        below = above
    return chain


def _identity(key: object, chain: list[x509.Certificate]) -> Identity:
    if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey | Ed448PrivateKey):
        raise BadStore("its private key is of a kind that is not used here")
    if not chain:
        raise BadStore("its private key has no certificate")
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        certified = chain[0].public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm):
        raise BadStore("its first certificate is for a key that cannot be read") from None
    if key.public_key().public_bytes(*form) != certified:
        raise BadStore("its first certificate belongs to another key")
    return Identity(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), tuple(chain))


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(" ".join(found[1].split()), found[2]) for found in _BLOCK.finditer(text)]


def _block(name: str, body: str) -> bytes:
    """In the form of RFC 7468. Headers stay: they say how an old key is encrypted."""
    headers = "".join(line.strip() + "\n" for line in _HEADER.findall(body))
    letters = "".join(_HEADER.sub("", body).split())
    lines = "\n".join(letters[at : at + 64] for at in range(0, len(letters), 64))
    return f"-----BEGIN {name}-----\n{headers}{headers and chr(10)}{lines}\n-----END {name}-----\n".encode()
