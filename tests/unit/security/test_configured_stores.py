"""Which settings of a key store and of a trust store go together, before any file is read."""

import pytest

from keystores.configured import Store, own_identity, trusted_certificates
from keystores.stores import BadStore

NEEDS_BOTH = "ssl.keystore.key and ssl.keystore.certificate.chain are wanted together"
KEY_ALONE = "ssl.keystore.key is for ssl.keystore.type PEM, without a location and a store password"
TEXT_ALONE = "ssl.truststore.certificates are for ssl.truststore.type PEM, without a location and password"


def store(
    kind: str, path: str | None = None, password: str | None = None, text: str | None = None, key: str | None = None
) -> Store:
    return Store(kind=kind, path=path, password=password, text=text, key=key)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (store("PEM", key="k"), NEEDS_BOTH),
        (store("PEM", text="c"), NEEDS_BOTH),
        (store("JKS", key="k", text="c"), KEY_ALONE),
        (store("PEM", path="/nowhere", key="k", text="c"), KEY_ALONE),
        (store("PEM", password="p", key="k", text="c"), KEY_ALONE),
        (store("PEM", key="k", text="c"), "it holds 0 private keys, not one"),
        (
            store("PEM"),
            "TLS needs a key: ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain",
        ),
        (store("JKS", path="/nowhere"), "ssl.keystore.location needs ssl.keystore.password"),
        (
            store("PEM", path="/nowhere", password="p"),
            "a key store in PEM has no ssl.keystore.password, its key may have ssl.key.password",
        ),
        (store("PEM", path="/dev/null"), "/dev/null: it holds 0 private keys, not one"),
    ],
)
def test_a_key_store(said: Store, sentence: str) -> None:
    with pytest.raises(BadStore) as refused:
        own_identity(said)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (store("JKS", text="c"), TEXT_ALONE),
        (store("PEM", path="/nowhere", text="c"), TEXT_ALONE),
        (store("PEM", password="p", text="c"), TEXT_ALONE),
        (store("PEM", text="c"), "it holds no certificate"),
        (store("PEM", path="/dev/null"), "/dev/null: it holds no certificate"),
        (
            store("PKCS12", path="/dev/null"),
            "/dev/null: it is neither a JKS nor a PKCS12 that opens with the password",
        ),
    ],
)
def test_a_trust_store(said: Store, sentence: str) -> None:
    with pytest.raises(BadStore) as refused:
        trusted_certificates(said)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
def test_who_has_no_trust_store_trusts_nobody(kind: str) -> None:
    assert trusted_certificates(store(kind)) == []
