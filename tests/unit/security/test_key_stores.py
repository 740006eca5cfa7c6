"""Key stores as Kafka takes them: PEM in one line or many, PKCS12, JKS."""

import base64
import os
import stat
from datetime import timedelta
from hashlib import sha1
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from keystores import jks, key_files
from keystores.der import NotDer
from keystores.der import element as der_element
from keystores.stores import (
    BadStore,
    certificates_of_file,
    certificates_of_pem,
    identity_of_file,
    identity_of_pem,
)
from tallystick.certificates import Authority

OF_KEYTOOL = base64.b64decode(
    "/u3+7QAAAAIAAAACAAAAAQAGYnJva2VyAAABogS3/pQAAAB/MH0wDgYKKwYBBAEqAhEBAQUABGt1zHabLfP6v8jIMqYt/qugmYzpKGanE449++"
    "ELS8LLFfEDtz0weA+alahk9rfFxsvd2YCBPO3s7e1KpsedLCHsgKFijpKL0DMQjaOZpmVbhJlzcxG9tHyxEmivkRDD4pcR9uubvfiP9G+6YwAA"
    "AAEABVguNTA5AAABajCCAWYwggEMoAMCAQICCQC2ihFk9u6pBzAKBggqhkjOPQQDAjAmMRMwEQYDVQQKEwpUYWxseXN0aWNrMQ8wDQYDVQQDEw"
    "Zicm9rZXIwIBcNMjYxMTIyMTkyNDU2WhgPMjEyNjEwMjkxOTI0NTZaMCYxEzARBgNVBAoTClRhbGx5c3RpY2sxDzANBgNVBAMTBmJyb2tlcjBZ"
    "MBMGByqGSM49AgEGCCqGSM49AwEHA0IABDxcI7fGGUlCYypCndsF3IMReV1N3H+vOIqm9xQsumtUGuzyv6Pkw1eXJ+TZ9+MMnGlzSyTygTOZMw"
    "kzHC3LqdSjITAfMB0GA1UdDgQWBBS4QkQmMJiUXxKgWPx4MplpeqDi6zAKBggqhkjOPQQDAgNIADBFAiEAq29eLwS+BXf3Vpkys+b2RWbXkvoj"
    "Y0NwhS3WDSoBaWoCIEL3hFyX00bl0xcH3o+cR5i1Y3syzCLeOgViWwv6bik8AAAAAgAGZnJpZW5kAAABogS4BicABVguNTA5AAABlDCCAZAwgg"
    "E1oAMCAQICFAnnNFXFpWObU3GQOahUQQKt/DQHMAoGCCqGSM49BAMCMCQxIjAgBgNVBAMMGVRhbGx5c3RpY2sgZGV2ZWxvcG1lbnQgQ0EwHhcN"
    "MjYxMTIyMTgyNDAxWhcNMzYxMTE5MTkyNDAxWjAkMSIwIAYDVQQDDBlUYWxseXN0aWNrIGRldmVsb3BtZW50IENBMFkwEwYHKoZIzj0CAQYIKo"
    "ZIzj0DAQcDQgAEN2WXNbFvzfelnfMpbymufP5yA4UiEQ10IY3hBPfFlFSoQkGZlNRuCGjl9tbpwchQPybFnc64NXhiRt+v29ytaaNFMEMwHQYD"
    "VR0OBBYEFDv3qQya/UkrEImd1ShHQrKAGN2qMBIGA1UdEwEB/wQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMCA0kAMEYCIQ"
    "Dfz5VSk4DXSVb1PYofxjb3c32a9QagdsrmICkqmpzMkgIhAI4p8lISIN0E+n5+BHb/W5XCQQk2vXzve3jfI8O1oNo3v5A6k2BIy5/Y5/EQxQS7"
    "/XYk+zw="
)
"""What `keytool -storetype JKS` of Java 17 made: the key `broker`, and a certificate of `friend`."""
STORE, KEY = "storesecret", "keysecret"
AUTHORITY = Authority.make("test")
BROKER = AUTHORITY.issue([(NameOID.COMMON_NAME, "broker")], hosts=["localhost"])


def signed_again(data: bytes) -> bytes:
    """A changed file with the digest that it would have."""
    body = data[:-20]
    return body + sha1(STORE.encode("utf-16-be") + jks.WHITENER + body).digest()


def text(value: bytes) -> bytes:
    return pack(">H", len(value)) + value


def der(value: bytes) -> bytes:
    return pack(">I", len(value)) + value


def element(tag: int, contents: bytes) -> bytes:
    return bytes((tag, 0x82)) + pack(">H", len(contents)) + contents


def protected(key: bytes, *, protector: bytes = jks.KEY_PROTECTOR) -> bytes:
    """A key as Java keeps it, with a salt of zeros."""
    secret, link, stream = KEY.encode("utf-16-be"), bytes(20), b""
    while len(stream) < len(key):
        link = sha1(secret + link).digest()
        stream += link
    hidden = bytes(one ^ other for one, other in zip(key, stream, strict=False))
    return in_form(bytes(20) + hidden + sha1(secret + key).digest(), protector)


def in_form(octets: bytes, protector: bytes = jks.KEY_PROTECTOR) -> bytes:
    return element(0x30, element(0x30, protector + b"\5\0") + element(0x04, octets))


def entry(tag: int, body: bytes, *, alias: bytes = b"broker") -> bytes:
    return pack(">I", tag) + text(alias) + bytes(8) + body


def key_entry(key: bytes, *chain: bytes, kind: bytes = b"X.509") -> bytes:
    return entry(1, der(key) + pack(">I", len(chain)) + b"".join(text(kind) + der(one) for one in chain))


def store(*entries: bytes, version: int = 2, count: int | None = None) -> bytes:
    head = pack(">II", version, len(entries) if count is None else count)
    return signed_again(jks.MAGIC + head + b"".join(entries) + bytes(20))


CERTIFICATE_DER = BROKER.certificate.public_bytes(Encoding.DER)
KEY_DER = BROKER.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
RIGHT = protected(KEY_DER)


def test_a_java_key_store_that_is_made_here_is_read() -> None:
    data = store(key_entry(RIGHT, CERTIFICATE_DER), entry(2, text(b"X.509") + der(CERTIFICATE_DER)))
    identity = identity_of_file(data, STORE, KEY)
    assert identity.chain == (BROKER.certificate,) and identity.key == BROKER.key_pem
    assert certificates_of_file(data, STORE) == [BROKER.certificate] * 2
    first = pack(">I", 1) + der(CERTIFICATE_DER)
    of_version_1 = store(entry(1, der(RIGHT) + first), entry(2, der(CERTIFICATE_DER)), version=1)
    assert identity_of_file(of_version_1, STORE, KEY).chain == (BROKER.certificate,)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (store(), "it holds no private key"),
        (store(version=3), "a Java key store of version 3 with 0 entries"),
        (store(version=0), "a Java key store of version 0 with 0 entries"),
        (store(count=10_001), "a Java key store of version 2 with 10001 entries"),
        (store(count=1), "it ends in the middle"),
        (store(entry(3, b"")), "an entry of kind 3"),
        (store(entry(2, b"", alias=b"\xff")), "it ends in the middle"),
        (store(key_entry(RIGHT, CERTIFICATE_DER)[:-1]), "it ends in the middle"),
        (store(key_entry(RIGHT, CERTIFICATE_DER, kind=b"X.400")), "a certificate of the kind X.400"),
        (store(key_entry(b"", CERTIFICATE_DER)), "a key in another form than Java's own"),
        (store(key_entry(RIGHT[:-1], CERTIFICATE_DER)), "a key in another form than Java's own"),
        (
            store(key_entry(protected(KEY_DER, protector=b"\6\1\0"), CERTIFICATE_DER)),
            "a key that is protected in another way than Java's own",
        ),
        (store(key_entry(in_form(bytes(39)), CERTIFICATE_DER)), "the key broker is too short"),
        (store(key_entry(in_form(bytes(40)), CERTIFICATE_DER)), "the password of the key broker is wrong"),
        (store(key_entry(protected(b"no key"), CERTIFICATE_DER)), "its private key broker cannot be read"),
        (store(key_entry(RIGHT, b"no certificate")), "one of its certificates cannot be read"),
        (store(key_entry(RIGHT)), "its private key has no certificate"),
    ],
)
def test_what_is_wrong_in_a_java_key_store_is_told(data: bytes, sentence: str) -> None:
    with pytest.raises(BadStore) as refused:
        identity_of_file(data, STORE, KEY)
    assert str(refused.value) == sentence


def test_a_java_key_store_is_read_where_sha_1_is_not_for_security(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OpenSSL under FIPS refuses it otherwise."""

    def strict(data: bytes, *, usedforsecurity: bool = True) -> Any:
        assert not usedforsecurity
        return sha1(data)

    monkeypatch.setattr(jks, "sha1", strict)
    assert identity_of_file(store(key_entry(RIGHT, CERTIFICATE_DER)), STORE, KEY).chain == (BROKER.certificate,)


def test_a_certificate_for_a_key_of_an_unknown_kind_is_refused() -> None:
    elliptic, unknown = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0209")
    assert CERTIFICATE_DER.count(elliptic) == 1
    changed = base64.encodebytes(CERTIFICATE_DER.replace(elliptic, unknown)).decode()
    chain = f"-----BEGIN CERTIFICATE-----\n{changed}-----END CERTIFICATE-----\n"
    with pytest.raises(BadStore, match="its first certificate is for a key that cannot be read"):
        identity_of_pem(BROKER.key_pem.decode(), chain, None)


def test_a_java_key_store_is_read() -> None:
    identity = identity_of_file(OF_KEYTOOL, STORE, KEY)
    assert identity.chain[0].subject.rfc4514_string() == "CN=broker,O=Tallystick"
    names = [one.subject.rfc4514_string() for one in certificates_of_file(OF_KEYTOOL, STORE)]
    assert names == ["CN=Tallystick development CA", "CN=broker,O=Tallystick"]
    assert len(certificates_of_file(OF_KEYTOOL, None)) == 2, "without a password nothing is checked, as in Java"


def test_a_java_key_store_opens_with_its_passwords_only() -> None:
    with pytest.raises(BadStore, match="the password is wrong"):
        identity_of_file(OF_KEYTOOL, "another", KEY)
    with pytest.raises(BadStore, match="the password of the key broker is wrong") as refused:
        identity_of_file(OF_KEYTOOL, STORE, "another")
    assert "another" not in str(refused.value)


def test_a_java_key_store_that_was_changed_is_refused() -> None:
    changed = bytearray(OF_KEYTOOL)
    changed[500] ^= 1
    with pytest.raises(BadStore, match="or the file was changed"):
        certificates_of_file(bytes(changed), STORE)


@given(st.integers(0, len(OF_KEYTOOL) - 21), st.integers(0, 255), st.integers(0, 60))
@example(190, 1, 0)  # a certificate of a version that there is not
def test_whatever_is_wrong_within_a_java_key_store_is_told_in_a_sentence(at: int, byte: int, cut: int) -> None:
    changed = bytearray(OF_KEYTOOL)
    changed[at] = byte
    del changed[at + 1 : at + 1 + cut]
    try:
        identity_of_file(jks.MAGIC + signed_again(bytes(changed))[4:], STORE, KEY)
    except BadStore as problem:
        assert str(problem)


def test_a_pkcs12_is_read_and_its_chain_put_in_order() -> None:
    above = x509.load_pem_x509_certificate(AUTHORITY.issued.certificate_pem)
    beside = AUTHORITY.issue([(NameOID.COMMON_NAME, "beside")]).certificate
    data = pkcs12.serialize_key_and_certificates(
        b"broker", BROKER.key, BROKER.certificate, [beside, above], BestAvailableEncryption(STORE.encode())
    )
    identity = identity_of_file(data, STORE, None)
    assert list(identity.chain) == [BROKER.certificate, above]
    assert identity.key.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert set(certificates_of_file(data, STORE)) == {BROKER.certificate, beside, above}
    with pytest.raises(BadStore, match="neither a JKS nor a PKCS12"):
        identity_of_file(data, "another", None)
    with pytest.raises(BadStore, match=r"it is PEM, and its type .* says otherwise"):
        certificates_of_file(b"\n" + AUTHORITY.issued.certificate_pem, STORE)


def test_a_pkcs12_without_a_key_is_a_trust_store() -> None:
    above = AUTHORITY.issued.certificate
    data = pkcs12.serialize_key_and_certificates(None, None, None, [above], BestAvailableEncryption(STORE.encode()))
    assert certificates_of_file(data, STORE) == [above]
    with pytest.raises(BadStore, match="no private key"):
        identity_of_file(data, STORE, None)


def test_pem_may_be_one_long_line() -> None:
    """As it stands in a properties file whose lines are continued."""
    key, chain = (pem.decode().replace("\n", " ") for pem in (BROKER.key_pem, BROKER.certificate_pem))
    assert identity_of_pem(key, chain, None).chain == (BROKER.certificate,)
    assert certificates_of_pem(chain + chain) == [BROKER.certificate] * 2


def test_words_around_pem_are_passed_over() -> None:
    text = "Bag Attributes\n    friendlyName: broker\n" + BROKER.certificate_pem.decode() + "the end\n"
    assert certificates_of_pem(text) == [BROKER.certificate]


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key_needs_its_password(form: PrivateFormat) -> None:
    key = BROKER.key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(KEY.encode())).decode()
    chain = BROKER.certificate_pem.decode()
    assert identity_of_pem(key, chain, KEY).chain == (BROKER.certificate,)
    with pytest.raises(BadStore, match=r"is encrypted, and there is no ssl\.key\.password"):
        identity_of_pem(key, chain, None)
    with pytest.raises(BadStore, match="cannot be read") as refused:
        identity_of_pem(key, chain, "another")
    assert "another" not in str(refused.value)


def test_a_password_for_an_open_key_is_not_needed_and_does_no_harm() -> None:
    assert identity_of_pem(BROKER.key_pem.decode(), BROKER.certificate_pem.decode(), KEY).chain


@pytest.mark.parametrize(
    ("key", "chain", "sentence"),
    [
        (b"", BROKER.certificate_pem, "it holds 0 private keys, not one"),
        (BROKER.key_pem * 2, BROKER.certificate_pem, "it holds 2 private keys, not one"),
        (BROKER.key_pem, b"", "it holds no certificate"),
        (BROKER.key_pem, AUTHORITY.issued.certificate_pem, "its first certificate belongs to another key"),
        (BROKER.key_pem.replace(b"M", b"A", 1), BROKER.certificate_pem, "its private key cannot be read"),
        (BROKER.key_pem, BROKER.certificate_pem.replace(b"M", b"A", 1), "one of its certificates cannot be read"),
    ],
)
def test_what_does_not_go_together_is_told_in_a_sentence(key: bytes, chain: bytes, sentence: str) -> None:
    with pytest.raises(BadStore) as refused:
        identity_of_pem(key.decode(), chain.decode(), None)
    assert sentence in str(refused.value)


def test_a_certificate_may_have_run_out_for_all_that_is_read_here() -> None:
    begins = BROKER.certificate.not_valid_before_utc - timedelta(days=3)
    old = AUTHORITY.issue([(NameOID.COMMON_NAME, "old")], begins=begins, lasts=timedelta(days=1))
    assert identity_of_pem(old.key_pem.decode(), old.certificate_pem.decode(), None).chain == (old.certificate,)


@given(st.integers(0, 300) | st.sampled_from([65_535, 65_536, 70_000]), st.integers(0, 255), st.binary(max_size=3))
def test_an_element_of_der_is_what_its_length_says(size: int, tag: int, behind: bytes) -> None:
    contents = bytes(size)
    in_bytes = size.to_bytes(max((size.bit_length() + 7) // 8, 1), "big")
    length = in_bytes if size < 128 else bytes([128 | len(in_bytes)]) + in_bytes
    whole = bytes([tag]) + length + contents
    assert der_element(whole + behind, tag) == (contents, behind)
    for wrong, wanted in ((whole[:-1], tag), (whole, tag ^ 1)):
        with pytest.raises(NotDer):
            der_element(wrong, wanted)


def test_a_file_has_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_files, "MOST_BYTES", 1 << 20)
    path = tmp_path / "store"
    path.write_bytes(bytes(1 << 20))
    assert key_files.read(str(path)) == bytes(1 << 20)
    path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(OSError, match="store is larger than 1 MB"):
        key_files.read(str(path))


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_key_is_in_a_file_for_as_long_as_openssl_reads_it(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with pytest.raises(KeyError), key_files.as_file(b"the key") as path:
        found = os.stat(path)
        assert Path(path).read_bytes() == b"the key" and (in_memory or stat.S_IMODE(found.st_mode) == 0o600)
        raise KeyError
    try:
        assert os.stat(path).st_ino != found.st_ino
    except OSError:
        assert not os.path.exists(path)
