"""From the settings of a listener to what OpenSSL is told: which go together, what they leave, who may follow whom."""

import asyncio
import logging
import ssl
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.config.broker_config import BrokerConfig
from broker.process.environment import RealEnvironment
from broker.security.tls import contexts, tls_listeners
from broker.security.tls.contexts import LoadedTls, context_towards_nodes, load_tls
from broker.security.tls.errors import BadTls, NoRuleMatches
from broker.security.tls.settings import TlsSettings, tls_settings
from broker.security.tls.tls_listeners import TlsListeners
from keystores.key_files import Stamp
from tests.harness.certificates import HOSTS, Certificates

LISTENERS = {"listeners": "SSL://127.0.0.1:0"}


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def loaded(settings: dict[str, str | None], listener: str = "SSL") -> LoadedTls:
    said = {name: value for name, value in settings.items() if value is not None}
    return load_tls(tls_settings(BrokerConfig(LISTENERS | said), listener))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ssl.keystore.location": None}, "TLS needs a key"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.location needs ssl.keystore.password"),
        ({"ssl.keystore.type": "JKS", "ssl.keystore.password": "geheim"}, "it is PEM, and its type"),
        ({"ssl.keystore.password": "geheim"}, "a key store in PEM has no ssl.keystore.password"),
        ({"ssl.keystore.key": "geheim"}, "are wanted together"),
        ({"ssl.keystore.key": "geheim", "ssl.keystore.certificate.chain": "x"}, "without a location"),
        ({"ssl.keystore.location": "/there/is/none.pem"}, "/there/is/none.pem: No such file or directory"),
        ({"ssl.truststore.certificates": "x"}, "without a location and password"),
        ({"ssl.truststore.location": "/dev/null"}, "listener SSL: /dev/null: it holds no certificate."),
        ({"ssl.keystore.location": "/dev/null"}, "listener SSL: /dev/null: it holds 0 private keys, not one."),
        ({"ssl.truststore.location": None, "ssl.client.auth": "required"}, "ssl.client.auth=required needs a trust"),
        ({"ssl.cipher.suites": "TLS_NULL"}, "ssl.cipher.suites: TLS_NULL is not known here"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "of TLS 1.3 all suites can be had or none"),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.3"},
            "leave no version of TLS",
        ),
        ({"ssl.principal.mapping.rules": "RULE:"}, "'RULE:'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    certificates: Certificates, changed: dict[str, str | None], sentence: str
) -> None:
    with pytest.raises(BadTls) as refused:
        loaded({**certificates.settings(), **changed})
    assert sentence in str(refused.value) and "listener SSL: " in str(refused.value)
    assert "geheim" not in str(refused.value)


def test_a_certificate_with_names_that_cannot_be_read_is_refused(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: object) -> str:
        raise ValueError("error parsing asn1 value")

    monkeypatch.setattr(contexts, "distinguished_name", unreadable)
    with pytest.raises(BadTls, match=r"^listener SSL: its certificate cannot be read\.$"):
        loaded(certificates.settings())


def test_keys_and_certificates_may_stand_in_the_settings(certificates: Certificates) -> None:
    text = certificates.path("server").read_text()
    inline = {"ssl.keystore.type": "PEM", "ssl.keystore.key": text, "ssl.keystore.certificate.chain": text}
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates.path("ca").read_text()}
    found = loaded({**inline, **trust, "ssl.client.auth": "Required"})
    assert found.context.verify_mode is ssl.CERT_REQUIRED
    assert found.name == "CN=server,O=tests" and found.stamps == ()


@pytest.mark.parametrize(
    ("settings", "lowest", "highest"),
    [
        ({}, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        ({"ssl.enabled.protocols": "TLSv1.2"}, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
            ssl.TLSVersion.TLSv1_2,
            ssl.TLSVersion.TLSv1_2,
        ),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256"},
            ssl.TLSVersion.TLSv1_3,
            ssl.TLSVersion.TLSv1_3,
        ),
    ],
)
def test_versions_are_those_that_settings_and_suites_leave(
    certificates: Certificates, settings: dict[str, str], lowest: ssl.TLSVersion, highest: ssl.TLSVersion
) -> None:
    context = loaded({**certificates.settings(), **settings}).context
    assert (context.minimum_version, context.maximum_version) == (lowest, highest)


def test_suites_of_tls_1_2_are_those_that_are_named(certificates: Certificates) -> None:
    suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
    context = loaded({**certificates.settings(), "ssl.cipher.suites": suites}).context
    names = [one["name"] for one in context.get_ciphers() if one["protocol"] == "TLSv1.2"]
    assert names == ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"]


def test_a_sasl_listener_asks_for_certificates_only_where_that_is_said_of_it(certificates: Certificates) -> None:
    """KIP-684."""
    of_all = certificates.settings(client_auth="required")
    mapping = {"listener.security.protocol.map": "SSL:SSL,BOTH:SASL_SSL"}
    config = BrokerConfig({**LISTENERS, **mapping, **of_all})
    assert tls_settings(config, "SSL").client_auth == "required"
    assert tls_settings(config, "BOTH").client_auth == "none"
    config = BrokerConfig({**LISTENERS, **mapping, **of_all, "listener.name.both.ssl.client.auth": "requested"})
    assert tls_settings(config, "BOTH").client_auth == "requested"
    assert not tls_settings(config, "BOTH").names_from_certificates


def test_a_setting_with_nothing_in_it_says_nothing() -> None:
    keys = ("keystore.location", "keystore.password", "keystore.key", "keystore.certificate.chain", "key.password")
    trust = ("truststore.location", "truststore.password", "truststore.certificates")
    nothing = {f"ssl.{name}": "" for name in (*keys, *trust, "principal.mapping.rules")}
    assert tls_settings(BrokerConfig({**LISTENERS, **nothing}), "SSL") == tls_settings(BrokerConfig(LISTENERS), "SSL")


def test_a_successor_has_the_same_names(certificates: Certificates) -> None:
    """KIP-978."""
    settings = certificates.settings()
    first = loaded(settings)
    certificates.issue("server", hosts=(*HOSTS, "more.example"))
    more = loaded(settings)
    first.check_successor(more)
    with pytest.raises(BadTls, match=r"SubjectAltNames do not match: DNSName:more\.example would be gone"):
        more.check_successor(first)
    more.check_successor(loaded({**settings, "ssl.allow.san.changes": "true"}))
    certificates.issue("server", hosts=HOSTS, common_name="another")
    with pytest.raises(BadTls, match="DistinguishedName does not match: existing=CN=server,O=tests, new=CN=another"):
        first.check_successor(loaded(settings))
    first.check_successor(loaded({**settings, "ssl.allow.dn.changes": "true"}))


def test_a_certificate_without_other_names_has_none_to_lose(certificates: Certificates) -> None:
    settings = certificates.settings()
    certificates.issue("server")
    bare = loaded(settings)
    bare.check_successor(loaded(settings))
    certificates.issue("server", hosts=HOSTS)
    named = loaded(settings)
    bare.check_successor(named)
    with pytest.raises(BadTls, match=r"do not match: DNSName:localhost, IPAddress:127\.0\.0\.1 would be gone"):
        named.check_successor(bare)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ssl.truststore.location": None}, "nodes that speak TLS among each other need a trust store"),
        ({"ssl.truststore.location": "/there/is/none.pem"}, "/there/is/none.pem: No such file or directory"),
        ({"ssl.keystore.location": None}, "TLS needs a key"),
        (
            {"ssl.enabled.protocols": "TLSv1.3", "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
            "leave no",
        ),
        ({"ssl.cipher.suites": "TLS_NULL"}, "ssl.cipher.suites: TLS_NULL is not known here"),
    ],
)
def test_what_nodes_cannot_connect_to_one_another_with_is_refused(
    certificates: Certificates, changed: dict[str, str | None], sentence: str
) -> None:
    said = {name: value for name, value in (certificates.settings() | changed).items() if value is not None}
    settings = tls_settings(BrokerConfig(LISTENERS | said), "SSL")
    with pytest.raises(BadTls, match=sentence):
        context_towards_nodes(settings, compares_names=True)


def test_nodes_connect_to_one_another_as_their_listener_is_set_up(certificates: Certificates) -> None:
    said = certificates.settings() | {"ssl.enabled.protocols": "TLSv1.3"}
    settings = tls_settings(BrokerConfig(LISTENERS | said), "SSL")
    context = context_towards_nodes(settings, compares_names=True)
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    assert len(context.get_ca_certs()) == 1, "nobody else's"
    lax = context_towards_nodes(settings, compares_names=False)
    assert (lax.check_hostname, lax.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_a_client_whose_certificate_cannot_be_read_is_nobody(certificates: Certificates) -> None:
    with pytest.raises(NoRuleMatches, match="the name in its certificate cannot be read"):
        loaded(certificates.settings()).principal_of(b"no certificate")


def test_files_that_cannot_be_loaded_leave_what_was_and_are_told_of_once(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    path = certificates.path("server")
    right = path.read_bytes()

    async def story() -> None:
        environment = RealEnvironment(None, sync_threads=1)
        config = BrokerConfig(
            LISTENERS | certificates.settings() | {"tallystick.tls.file.check.interval.ms": "3600000"}
        )
        listeners = TlsListeners(config, environment, ["SSL"])
        await listeners.load()
        watching = asyncio.create_task(listeners.keep_current())
        first = listeners.of("SSL")
        caplog.clear()

        async def look() -> list[str]:
            config.said_again(frozenset(["listener.name.ssl.ssl.keystore.location"]))
            await listeners.settled()
            told = [one.getMessage() for one in caplog.records if one.name == "tallystick.tls"]
            caplog.clear()
            return told

        path.write_bytes(b"broken")
        assert await look() == ["certificates cannot be loaded, those before them stay"]
        assert await look() == [] and listeners.of("SSL") is first
        path.write_bytes(b"broken in another way")
        assert await look() == ["certificates cannot be loaded, those before them stay"]
        path.write_bytes(right)
        with caplog.at_level(logging.INFO, "tallystick.tls"):
            assert await look() == ["certificate loaded"] and listeners.of("SSL") is not first
            assert await look() == [] and not watching.done()
        watching.cancel()
        await asyncio.wait([watching])
        environment.close()

    asyncio.run(story())


def test_a_change_of_settings_is_looked_at_once(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    stamps_of = tls_listeners.stamps_of

    def counted(settings: TlsSettings) -> tuple[Stamp, ...]:
        looks.append(settings.listener)
        return stamps_of(settings)

    async def story() -> None:
        environment = RealEnvironment(None, sync_threads=1)
        config = BrokerConfig(LISTENERS | certificates.settings())
        listeners = TlsListeners(config, environment, ["SSL"])
        await listeners.load()
        monkeypatch.setattr(tls_listeners, "stamps_of", counted)
        for count in (1, 2):
            config.said_again(frozenset(["listener.name.ssl.ssl.keystore.location"]))
            for _ in range(2):
                await listeners.settled()
                assert looks == ["SSL"] * count
        environment.close()

    asyncio.run(story())


def test_files_are_looked_at_as_often_as_the_setting_says(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    class Looked(Exception):
        pass

    def timeout(seconds: float) -> None:
        pauses.append(seconds)
        raise Looked

    async def story() -> None:
        environment = RealEnvironment(None, sync_threads=1)
        config = BrokerConfig(LISTENERS | certificates.settings() | {"tallystick.tls.file.check.interval.ms": "1500"})
        listeners = TlsListeners(config, environment, ["SSL"])
        monkeypatch.setattr("broker.security.tls.tls_listeners.asyncio", SimpleNamespace(timeout=timeout))
        with pytest.raises(Looked):
            await listeners.keep_current()
        environment.close()

    asyncio.run(story())
    assert pauses == [1.5]


def test_secrets_are_not_shown(certificates: Certificates) -> None:
    settings = {**certificates.settings(), "ssl.key.password": "geheim", "ssl.truststore.password": "geheim"}
    assert "geheim" not in repr(tls_settings(BrokerConfig({**LISTENERS, **settings}), "SSL"))


@pytest.mark.parametrize(
    ("lasts", "warnings"),
    [(timedelta(days=30), []), (timedelta(days=10), ["the certificate runs out soon"])],
    ids=["a month", "ten days"],
)
def test_a_certificate_that_runs_out_soon_is_warned_of(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, lasts: timedelta, warnings: list[str]
) -> None:
    certificates.issue("server", hosts=HOSTS, lasts=lasts)

    async def load() -> None:
        environment = RealEnvironment(None, sync_threads=1)
        await TlsListeners(BrokerConfig(LISTENERS | certificates.settings()), environment, ["SSL"]).load()
        environment.close()

    asyncio.run(load())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == warnings
