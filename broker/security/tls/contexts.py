"""What OpenSSL is told of one listener: its key and certificates, whom it trusts, versions and cipher suites.

Loading reads files and opens stores, which takes long where their passwords are strengthened: it is for a thread.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from broker.security.tls.errors import BadTls, NoRuleMatches
from broker.security.tls.principals import BadRules, PrincipalMapper, distinguished_name
from broker.security.tls.settings import TlsSettings
from keystores import key_files
from keystores.cipher_suites import UnknownSuite, read_suites
from keystores.configured import VERSIONS, own_identity, trusted_certificates
from keystores.stores import BadStore, Identity

VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True)
class LoadedTls:
    """One listener's TLS as it was loaded. `stamps` are those of its files before they were read."""

    settings: TlsSettings
    context: ssl.SSLContext
    mapper: PrincipalMapper
    certificate: x509.Certificate
    name: str
    """Who the broker says it is."""
    stamps: tuple[key_files.Stamp, ...]

    def principal_of(self, encoded: bytes) -> str:
        """Who a client with this certificate (DER) is. Raises `NoRuleMatches`."""
        try:
            return self.mapper.principal_of(x509.load_der_x509_certificate(encoded))
        except ValueError:
            raise NoRuleMatches("the name in its certificate cannot be read") from None

    def check_successor(self, other: "LoadedTls") -> None:
        """Refuse a certificate for somebody else (KIP-978), which clients would refuse. Raises `BadTls`."""
        before, after, listener = self.certificate, other.certificate, self.settings.listener
        if self.name != other.name and not other.settings.name_may_change:
            raise BadTls(
                f"listener {listener}: Keystore DistinguishedName does not match: "
                f"existing={self.name}, new={other.name}; see ssl.allow.dn.changes."
            )
        gone = _alternatives(before) - _alternatives(after)
        if gone and not other.settings.alternatives_may_go:
            raise BadTls(
                f"listener {listener}: Keystore SubjectAltNames do not match: {', '.join(sorted(gone))} would be gone; "
                "see ssl.allow.san.changes."
            )


def stamps_of(settings: TlsSettings) -> tuple[key_files.Stamp, ...]:
    return tuple(key_files.stamp(path) for path in settings.paths)


def load_tls(settings: TlsSettings) -> LoadedTls:
    """Read stores and make a context. Raises `BadTls`."""
    stamps = stamps_of(settings)
    try:
        mapper = PrincipalMapper(settings.rules)
        identity = own_identity(settings.keys)
        trusted = trusted_certificates(settings.trust)
        context = _context(settings, identity, trusted)
        name = distinguished_name(identity.chain[0].subject)
    except (BadStore, BadRules, UnknownSuite) as problem:
        raise BadTls(f"listener {settings.listener}: {problem}.") from None
    except ValueError:
        raise BadTls(f"listener {settings.listener}: its certificate cannot be read.") from None
    except OSError as error:
        raise BadTls(f"listener {settings.listener}: {_reason(error)}.") from None
    return LoadedTls(settings, context, mapper, identity.chain[0], name, stamps)


def _context(settings: TlsSettings, identity: Identity, trusted: Sequence[x509.Certificate]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _choose(context, settings)
    # A client that begins a second handshake on its connection makes us work; tickets would be worth memory and let
    # a certificate that has run out in again (TLS 1.3; those of 1.2 take none of our memory).
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.verify_mode = VERIFY[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        if not trusted:
            raise BadStore(
                f"ssl.client.auth={settings.client_auth} needs a trust store: whom are clients vouched for by?"
            )
        _trust(context, trusted)
    with key_files.as_file(identity.pem) as path:
        context.load_cert_chain(path)
    return context


def context_towards_nodes(settings: TlsSettings, *, compares_names: bool) -> ssl.SSLContext:
    """What this node connects to the same listener of another one with: its own key, and whom its trust store names.
    Raises `BadTls`."""
    try:
        identity = own_identity(settings.keys)
        trusted = trusted_certificates(settings.trust)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _choose(context, settings)
        context.check_hostname = compares_names
        if not trusted:
            raise BadStore("nodes that speak TLS among each other need a trust store: whom are they vouched for by?")
        _trust(context, trusted)
        with key_files.as_file(identity.pem) as path:
            context.load_cert_chain(path)
    except (BadStore, UnknownSuite) as problem:
        raise BadTls(f"listener {settings.listener}: {problem}.") from None
    except OSError as error:
        raise BadTls(f"listener {settings.listener}: {_reason(error)}.") from None
    return context


def _choose(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Versions and cipher suites."""
    suites = read_suites(settings.suites)
    versions = [VERSIONS[one] for one in VERSIONS if one in settings.versions]
    if suites is not None:
        wanted = (bool(suites.below_1_3), suites.for_1_3)
        versions = [one for one, keep in zip(VERSIONS.values(), wanted, strict=True) if keep and one in versions]
    if not versions:
        raise BadStore("ssl.enabled.protocols and ssl.cipher.suites leave no version of TLS")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if suites is not None and suites.below_1_3:
        context.set_ciphers(suites.below_1_3)


def _trust(context: ssl.SSLContext, trusted: Sequence[x509.Certificate]) -> None:
    """Whatever is in a trust store is trusted, as in Java, also where nobody vouches for it."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=b"".join(one.public_bytes(Encoding.DER) for one in trusted))


def _reason(error: OSError) -> str:
    """Of a file, or of what OpenSSL does not take."""
    return str(error.reason) if isinstance(error, ssl.SSLError) else f"{error.filename}: {error.strerror}"


def _alternatives(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    return frozenset(f"{type(one).__name__}:{one.value}" for one in names)
