"""A key store or a trust store as settings say it, by Kafka's rules of which go together (`DefaultSslEngineFactory`).

Reading opens files and stores, which takes long where their passwords are strengthened.
"""

import ssl
from dataclasses import dataclass

from cryptography import x509

from keystores import key_files
from keystores.stores import (
    BadStore,
    Identity,
    certificates_of_file,
    certificates_of_pem,
    identity_of_file,
    identity_of_pem,
)

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Of TLS, by their names in `ssl.enabled.protocols`; from the oldest to the newest."""
PEM = "PEM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A key store or a trust store: a file, or its text. `key` and `key_password` are those of a key store."""

    kind: str
    path: str | None
    password: str | None
    text: str | None
    key: str | None = None
    key_password: str | None = None

    def __repr__(self) -> str:
        return f"Store({self.kind}, {self.path})"  # its other fields are secrets


def own_identity(store: Store) -> Identity:
    """The key that a store holds, with its certificates. Raises `BadStore` and `OSError`."""
    if store.key is not None or store.text is not None:
        if store.key is None or store.text is None:
            raise BadStore("ssl.keystore.key and ssl.keystore.certificate.chain are wanted together")
        if store.kind != PEM or store.path is not None or store.password is not None:
            raise BadStore("ssl.keystore.key is for ssl.keystore.type PEM, without a location and a store password")
        return identity_of_pem(store.key, store.text, store.key_password)
    if store.path is None:
        raise BadStore("TLS needs a key: ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain")
    if store.kind != PEM and store.password is None:
        raise BadStore("ssl.keystore.location needs ssl.keystore.password")
    if store.kind == PEM and store.password is not None:
        raise BadStore("a key store in PEM has no ssl.keystore.password, its key may have ssl.key.password")
    data = key_files.read(store.path)
    try:
        if store.kind == PEM:
            text = data.decode("ascii", "replace")
            return identity_of_pem(text, text, store.key_password)
        assert store.password is not None
        return identity_of_file(data, store.password, store.key_password)
    except BadStore as problem:
        raise BadStore(f"{store.path}: {problem}") from None


def trusted_certificates(store: Store) -> list[x509.Certificate]:
    """What a store vouches for; nothing where there is none. Raises `BadStore` and `OSError`."""
    if store.text is not None:
        if store.kind != PEM or store.path is not None or store.password is not None:
            raise BadStore(
                "ssl.truststore.certificates are for ssl.truststore.type PEM, without a location and password"
            )
        return certificates_of_pem(store.text)
    if store.path is None:
        return []
    data = key_files.read(store.path)
    try:
        if store.kind == PEM:
            return certificates_of_pem(data.decode("ascii", "replace"))
        return certificates_of_file(data, store.password)
    except BadStore as problem:
        raise BadStore(f"{store.path}: {problem}") from None
