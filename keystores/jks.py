"""Reads Java's own key stores (JKS). Only reads: `keytool` has made PKCS12 for years.

    magic FEEDFEED, version u4, count u4, entries, SHA-1 over the password, the words below and all before it
    entry: tag u4 (1 key, 2 certificate), alias, date u8
           1: EncryptedPrivateKeyInfo, count u4 of certificates, certificates
           2: certificate
    certificate: [version 2: type,] DER        texts have a length of 2 bytes, DER one of 4

The key is not encrypted by a cipher: it is combined with a chain of SHA-1 digests that begins with a salt.
"""

from dataclasses import dataclass
from hashlib import sha1
from hmac import compare_digest
from struct import Struct, error

from keystores.der import NotDer, element

MAGIC = b"\xfe\xed\xfe\xed"
WHITENER = b"Mighty Aphrodite"
KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
"""The algorithm 1.3.6.1.4.1.42.2.17.1.1, as DER."""
DIGEST_BYTES = 20
KEY, CERTIFICATE = 1, 2
SEQUENCE, OCTET_STRING = 0x30, 0x04
MOST_ENTRIES = 10_000

_U2, _U4, _U8 = Struct(">H"), Struct(">I"), Struct(">Q")


class UnreadableJks(Exception):
    """Not such a file, or not with this password; the message is for the operator, and holds no secret."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key, still protected, and its certificates (DER, that of the key first)."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """What a file holds, in its order. `certificates` are those that are trusted (DER)."""

    keys: tuple[KeyEntry, ...]
    certificates: tuple[bytes, ...]


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a file. Without a password its integrity is not checked, as in Java. Raises `UnreadableJks`."""
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if password is not None:
        wanted = sha1(_characters(password) + WHITENER + body, usedforsecurity=False).digest()
        if not compare_digest(wanted, digest):
            raise UnreadableJks("the password is wrong, or the file was changed")
    try:
        return _Reader(body).read()
    except (error, UnicodeDecodeError):
        raise UnreadableJks("it ends in the middle") from None


def recover_key(entry: KeyEntry, password: str) -> bytes:
    """The private key (PKCS #8, DER). Raises `UnreadableJks`."""
    protected = _protected_octets(entry.protected)
    if len(protected) < 2 * DIGEST_BYTES:
        raise UnreadableJks(f"the key {entry.alias} is too short")
    secret = _characters(password)
    link, hidden, check = (
        protected[:DIGEST_BYTES],
        protected[DIGEST_BYTES:-DIGEST_BYTES],
        protected[-DIGEST_BYTES:],
    )
    stream = bytearray()
    while len(stream) < len(hidden):
        link = sha1(secret + link, usedforsecurity=False).digest()
        stream += link
    key = (int.from_bytes(hidden, "big") ^ int.from_bytes(stream[: len(hidden)], "big")).to_bytes(len(hidden), "big")
    if not compare_digest(sha1(secret + key, usedforsecurity=False).digest(), check):
        raise UnreadableJks(f"the password of the key {entry.alias} is wrong")
    return key


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self) -> JavaKeyStore:
        if self._data[:4] != MAGIC:
            raise UnreadableJks("it is no Java key store")
        self._at = 4
        version, count = self._number(_U4), self._number(_U4)
        if version not in (1, 2) or count > MOST_ENTRIES:
            raise UnreadableJks(f"a Java key store of version {version} with {count} entries")
        keys: list[KeyEntry] = []
        certificates: list[bytes] = []
        for _ in range(count):
            tag, alias, _ = self._number(_U4), self._text(), self._number(_U8)
            if tag == KEY:
                protected = self._bytes()
                chain = tuple(self._certificate(version) for _ in range(min(self._number(_U4), MOST_ENTRIES)))
                keys.append(KeyEntry(alias, protected, chain))
            elif tag == CERTIFICATE:
                certificates.append(self._certificate(version))
            else:
                raise UnreadableJks(f"an entry of kind {tag}")
        return JavaKeyStore(tuple(keys), tuple(certificates))

    def _number(self, form: Struct) -> int:
        value: int = form.unpack_from(self._data, self._at)[0]
        self._at += form.size
        return value

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise UnreadableJks("it ends in the middle")
        self._at += size
        return self._data[self._at - size : self._at]

    def _bytes(self) -> bytes:
        return self._take(self._number(_U4))

    def _text(self) -> str:
        return self._take(self._number(_U2)).decode()

    def _certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self._text()) != "X.509":
            raise UnreadableJks(f"a certificate of the kind {kind}")
        return self._bytes()


def _characters(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _protected_octets(der: bytes) -> bytes:
    """EncryptedPrivateKeyInfo ::= SEQUENCE { SEQUENCE { algorithm, parameters }, OCTET STRING }"""
    try:
        sequence, _ = element(der, SEQUENCE)
        algorithm, rest = element(sequence, SEQUENCE)
        octets, _ = element(rest, OCTET_STRING)
    except NotDer:
        raise UnreadableJks("a key in another form than Java's own") from None
    if not algorithm.startswith(KEY_PROTECTOR):
        raise UnreadableJks("a key that is protected in another way than Java's own")
    return octets
