"""How a client's settings, by Kafka's names, come to be `Security`: TLS, and the four mechanisms of SASL spoken here.

Reading opens stores, which takes long where their passwords are strengthened. Whatever cannot be used is said in one
sentence that names the setting and never holds a secret.
"""

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from protocol.sasl.jaas import BadJaas, LoginModule, read_jaas
from tallystick.client.sasl import MECHANISMS, OAUTHBEARER
from tallystick.client.security import Credentials, Security, TokenSource
from tallystick.client.tokens import EndpointToken, FileToken, UnsecuredToken

if TYPE_CHECKING:
    from keystores.configured import Store

Settings = Mapping[str, str]
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
KINDS = ("JKS", "PKCS12", "PEM")
_OF_THE_ENDPOINT = "OAuthBearerLoginCallbackHandler"
_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
_CLAIMS = {"unsecuredLoginStringClaim_": str, "unsecuredLoginNumberClaim_": float}
_EXTENSION = "extension_"


class BadSettings(Exception):
    """Settings that cannot be used."""


def security_of(settings: Settings) -> Security:
    """What a client's settings come to. Raises `BadSettings`."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadSettings(f"security.protocol is one of {', '.join(PROTOCOLS)}")
    return Security(
        _tls(settings) if protocol.endswith("SSL") else None,
        _credentials(settings) if protocol.startswith("SASL") else None,
    )


# Who the client is.


def _credentials(settings: Settings) -> Credentials:
    mechanism = settings.get("sasl.mechanism", "")
    if not mechanism:
        raise BadSettings(f"sasl.mechanism is missing: Kafka's default, GSSAPI, is not spoken here, {_spoken()} are")
    if mechanism not in MECHANISMS:
        raise BadSettings(f"sasl.mechanism={mechanism} is not spoken here, {_spoken()} are")
    try:
        module = read_jaas(settings.get("sasl.jaas.config", ""))
    except BadJaas as problem:
        raise BadSettings(f"sasl.jaas.config: {problem}") from None
    handler = settings.get("sasl.login.callback.handler.class", "")
    if handler and not (mechanism == OAUTHBEARER and handler.endswith(_OF_THE_ENDPOINT)):
        raise BadSettings("sasl.login.callback.handler.class: programs of one's own are not run here")
    if mechanism == OAUTHBEARER:
        return _bearer(settings, module)
    options = module.options
    if not options.get("username") or not options.get("password"):
        raise BadSettings("sasl.jaas.config needs username and password")
    return Credentials(
        mechanism, options["username"], options["password"], by_token=options.get("tokenauth", "").lower() == "true"
    )


def _spoken() -> str:
    return ", ".join(MECHANISMS)


def _bearer(settings: Settings, module: LoginModule) -> Credentials:
    options = module.options
    extensions = tuple(
        (name.removeprefix(_EXTENSION), value) for name, value in options.items() if name.startswith(_EXTENSION)
    )
    return Credentials(OAUTHBEARER, tokens=_tokens(settings, options), extensions=extensions)


def _tokens(settings: Settings, options: Settings) -> TokenSource:
    retriever = settings.get("sasl.oauthbearer.jwt.retriever.class", _RETRIEVERS[0])
    if not retriever.endswith(_RETRIEVERS):
        raise BadSettings(f"sasl.oauthbearer.jwt.retriever.class is one of {', '.join(_RETRIEVERS)}")
    url = settings.get("sasl.oauthbearer.token.endpoint.url", "")
    if not url:
        return _unsecured(options)
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileToken(unquote(parts.path))
    if parts.scheme not in ("http", "https"):
        raise BadSettings("sasl.oauthbearer.token.endpoint.url begins with https://, http:// or file:///")
    who = settings.get("sasl.oauthbearer.client.credentials.client.id") or options.get("clientId")
    secret = settings.get("sasl.oauthbearer.client.credentials.client.secret") or options.get("clientSecret")
    if not who or not secret:
        raise BadSettings("sasl.jaas.config needs clientId and clientSecret for sasl.oauthbearer.token.endpoint.url")
    try:
        timeout_ms = int(settings.get("sasl.login.read.timeout.ms", "10000"))
    except ValueError:
        raise BadSettings("sasl.login.read.timeout.ms is a number of milliseconds") from None
    return EndpointToken(
        url,
        who,
        secret,
        settings.get("sasl.oauthbearer.scope") or options.get("scope"),
        settings.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true",
        timeout_ms / 1000,
    )


def _unsecured(options: Settings) -> TokenSource:
    claims: dict[str, str | float] = {}
    try:
        for name, value in options.items():
            for prefix, kind in _CLAIMS.items():
                if name.startswith(prefix):
                    claims[name.removeprefix(prefix)] = kind(value)
        lasts_s = float(options.get("unsecuredLoginLifetimeSeconds", "3600"))
    except ValueError:
        raise BadSettings("sasl.jaas.config: an unsecured claim that should be a number is none") from None
    if options.get("unsecuredLoginPrincipalClaimName", "sub") not in claims:
        raise BadSettings(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url (https://, or file:/// of a file with a token), or, "
            "for development, unsecuredLoginStringClaim_sub in sasl.jaas.config"
        )
    return UnsecuredToken(tuple(claims.items()), lasts_s)


# Whom it trusts.


def _tls(settings: Settings) -> ssl.SSLContext:
    try:
        from keystores.cipher_suites import UnknownSuite
        from keystores.stores import BadStore
    except ImportError:
        raise BadSettings("TLS needs the library cryptography: pip install cryptography") from None
    try:
        return _context(settings)
    except (BadStore, UnknownSuite) as problem:
        raise BadSettings(str(problem)) from None
    except ssl.SSLError as problem:
        raise BadSettings(f"OpenSSL does not take these keys or certificates: {problem.reason}") from None
    except OSError as problem:
        raise BadSettings(f"a store cannot be read: {problem}") from None


def _context(settings: Settings) -> ssl.SSLContext:
    from cryptography.hazmat.primitives.serialization import Encoding

    from keystores import key_files
    from keystores.configured import own_identity, trusted_certificates
    from keystores.stores import BadStore

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _choose(context, settings)
    # Kafka's default is https; empty means that names are not compared.
    context.check_hostname = bool(settings.get("ssl.endpoint.identification.algorithm", "https").strip())
    # Whatever is in a trust store is trusted, as in Java, also where nobody vouches for it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted = trusted_certificates(_store(settings, "truststore", "certificates"))
    if trusted:
        context.load_verify_locations(cadata=b"".join(one.public_bytes(Encoding.DER) for one in trusted))
    else:
        context.load_default_certs()
    keys = _store(settings, "keystore", "certificate.chain")
    if keys.path is not None or keys.key is not None:
        with key_files.as_file(own_identity(keys).pem) as path:
            context.load_cert_chain(path)
    elif keys.text is not None:
        raise BadStore("ssl.keystore.certificate.chain is there, and ssl.keystore.key is not")
    return context


def _store(settings: Settings, store: str, text: str) -> "Store":
    from keystores.configured import Store
    from keystores.stores import BadStore

    def said(name: str) -> str | None:
        return settings.get(name) or None

    kind = settings.get(f"ssl.{store}.type", "JKS").upper()
    if kind not in KINDS:
        raise BadStore(f"ssl.{store}.type={kind} is not read here, {', '.join(KINDS)} are")
    return Store(
        kind=kind,
        path=said(f"ssl.{store}.location"),
        password=said(f"ssl.{store}.password"),
        text=said(f"ssl.{store}.{text}"),
        key=said("ssl.keystore.key") if store == "keystore" else None,
        key_password=said("ssl.key.password") if store == "keystore" else None,
    )


def _choose(context: ssl.SSLContext, settings: Settings) -> None:
    """Versions and cipher suites."""
    from keystores.cipher_suites import read_suites
    from keystores.configured import VERSIONS
    from keystores.stores import BadStore

    enabled, suites = _words(settings, "ssl.enabled.protocols"), read_suites(_words(settings, "ssl.cipher.suites"))
    versions = [version for name, version in VERSIONS.items() if not enabled or name in enabled]
    if suites is not None:
        possible = {ssl.TLSVersion.TLSv1_2: bool(suites.below_1_3), ssl.TLSVersion.TLSv1_3: suites.for_1_3}
        versions = [version for version in versions if possible[version]]
        if suites.below_1_3:
            context.set_ciphers(suites.below_1_3)
    if not versions:
        raise BadStore("ssl.enabled.protocols and ssl.cipher.suites leave no version of TLS")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _words(settings: Settings, name: str) -> list[str]:
    return [word.strip() for word in settings.get(name, "").split(",") if word.strip()]
