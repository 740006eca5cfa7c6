"""SASL as one listener is set up: which mechanisms, and who they know.

Settings are read where they are used, `listener.name.LISTENER.MECHANISM.KEY` before `listener.name.LISTENER.KEY` before
`KEY`; a JAAS line that was changed holds for the next exchange.
"""

from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Protocol

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.process.logging import EventLog, Passing
from broker.security.sasl.exchange import Exchange
from broker.security.sasl.gate import Gate
from broker.security.sasl.key_set import Far, KeySet
from broker.security.sasl.oauthbearer import OAuthBearerExchange
from broker.security.sasl.plain import PlainExchange
from broker.security.sasl.scram import NONCE_BYTES, CredentialOf, MadeUpCredentials, ScramExchange
from broker.security.sasl.tokens import SignedTokens, TokenRules, Tokens, UnsecuredTokens
from coordinator.cluster.keys.config_types import ConfigValue
from coordinator.cluster.keys.listener_keys import name_of
from protocol.sasl.jaas import read_jaas
from protocol.sasl.scram import SCRAM_BY_LABEL

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SERVED = (PLAIN, *SCRAM_BY_LABEL, OAUTHBEARER)
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER = "user_"
SIGNED_VALIDATORS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED_VALIDATOR = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
OAUTHBEARER_KEYS = "sasl.oauthbearer."

_log = EventLog("sasl")


class World(Far, Protocol):
    """What exchanges need of it."""

    def wall_ms(self) -> int: ...

    def random_bytes(self, count: int) -> bytes: ...


class SaslListener:
    """One SASL listener; it is the `Mechanisms` of the gates of its connections. Raises `ConfigError`."""

    def __init__(self, config: BrokerConfig, listener: str, world: World, credential_of: CredentialOf) -> None:
        self._config = config
        self._listener = listener
        self._world = world
        self._credential_of = credential_of
        self._made_up = MadeUpCredentials(world.random_bytes(32))
        self._plain: tuple[str, Mapping[str, str]] = ("", {})
        self._check()
        self._tokens = self._signed_or_unsecured() if OAUTHBEARER in self.enabled else None
        self.failures: Counter[str] = Counter()
        """Authentications that failed, by reason."""

    def gate(self) -> Gate:
        """For one more connection."""
        return Gate(self, monotonic_ms=self._world.monotonic_ms, wall_ms=self._world.wall_ms)

    def failed(self, reason: str, told: Mapping[str, Any]) -> None:
        """Count one more failure, of the connection that is `told` of in the log."""
        self.failures[reason] += 1
        _log.warning("authentication failed", **told, reason=reason, so_far=Passing(str(self.failures[reason])))

    @property
    def enabled(self) -> tuple[str, ...]:
        found = self._said("sasl.enabled.mechanisms")
        return found if isinstance(found, tuple) else ()

    @property
    def max_frame_bytes(self) -> int:
        return self._number("sasl.server.max.receive.size")

    @property
    def patience_ms(self) -> int:
        return self._config.get_int("tallystick.authentication.timeout.ms")

    @property
    def failure_delay_ms(self) -> int:
        """How long the answer to a failure is kept back."""
        return self._number("connection.failed.authentication.delay.ms")

    def longest_session_ms(self, mechanism: str) -> int:
        return self._number("connections.max.reauth.ms", mechanism)

    def begin(self, mechanism: str) -> Exchange:
        if mechanism == PLAIN:
            return PlainExchange(self._passwords())
        if mechanism == OAUTHBEARER:
            assert self._tokens is not None
            return OAuthBearerExchange(self._tokens)
        nonce = self._world.random_bytes(NONCE_BYTES)
        return ScramExchange(SCRAM_BY_LABEL[mechanism], self._credential_of, self._made_up, nonce)

    # ------------------------------------------------------------------ settings

    def _said(self, key: str, mechanism: str = "") -> ConfigValue | None:
        return self._config.of_listener(self._listener, key, mechanism)

    def _number(self, key: str, mechanism: str = "") -> int:
        value = self._said(key, mechanism)
        assert isinstance(value, int), key
        return value

    def _text(self, key: str) -> str | None:
        value = self._said(key, OAUTHBEARER)
        return value if isinstance(value, str) and value else None

    def _passwords(self) -> Mapping[str, str]:
        text = self._said("sasl.jaas.config", PLAIN)
        if isinstance(text, str) and text != self._plain[0]:
            options = read_jaas(text).options
            self._plain = text, {key[len(USER) :]: value for key, value in options.items() if key.startswith(USER)}
        return self._plain[1]

    def _check(self) -> None:
        where = f"listener {self._listener}"
        if not self.enabled:
            raise ConfigError(f"sasl.enabled.mechanisms: {where} would let nobody in.")
        for mechanism in self.enabled:
            if mechanism not in SERVED:
                raise ConfigError(
                    f"sasl.enabled.mechanisms: {where} cannot speak {mechanism}; it can speak {', '.join(SERVED)}."
                )
        idle_ms = self._config.get_int("connections.max.idle.ms")
        if 0 <= idle_ms <= self.failure_delay_ms:
            raise ConfigError(
                f"connection.failed.authentication.delay.ms: {where} would close connections as idle "
                "(connections.max.idle.ms) before they are answered."
            )
        if PLAIN in self.enabled:
            text = self._said("sasl.jaas.config", PLAIN)
            if not isinstance(text, str) or read_jaas(text).name != PLAIN_MODULE:
                name = name_of(self._listener, "sasl.jaas.config", PLAIN)
                raise ConfigError(f'{name}: PLAIN needs its users, as: {PLAIN_MODULE} required user_NAME="PASSWORD";')

    def _signed_or_unsecured(self) -> Tokens:
        """Who decides about tokens."""
        handler = self._text("sasl.server.callback.handler.class")
        if handler == UNSECURED_VALIDATOR:
            return UnsecuredTokens(self._unsecured_rules(), self._world.wall_ms)
        where = name_of(self._listener, "sasl.server.callback.handler.class", OAUTHBEARER)
        if handler is not None and handler not in SIGNED_VALIDATORS:
            raise ConfigError(f"{where}: {handler} is not known here.")
        url = self._text(f"{OAUTHBEARER_KEYS}jwks.endpoint.url")
        if url is None:
            raise ConfigError(
                f"{OAUTHBEARER_KEYS}jwks.endpoint.url is not set: nobody could tell whose tokens are true. (Tokens "
                f"that are not signed are believed only with {where}={UNSECURED_VALIDATOR}.)"
            )
        if find_spec("joserfc") is None:
            raise ConfigError(
                "OAUTHBEARER with signed tokens needs the extra `security`: pip install tallystick[security]."
            )
        from broker.security.sasl.fetched_keys import fetcher  # it brings HTTP, which few brokers need

        try:
            fetch = fetcher(url, self._world.monotonic_ms)
        except ValueError as problem:
            raise ConfigError(f"{OAUTHBEARER_KEYS}jwks.endpoint.url: {problem}.") from None
        refresh_ms = self._number(f"{OAUTHBEARER_KEYS}jwks.endpoint.refresh.ms", OAUTHBEARER)
        audiences = self._said(f"{OAUTHBEARER_KEYS}expected.audience", OAUTHBEARER)
        rules = TokenRules(
            audiences=frozenset(audiences) if isinstance(audiences, tuple) else frozenset(),
            issuer=self._text(f"{OAUTHBEARER_KEYS}expected.issuer"),
            subject_claim=self._text(f"{OAUTHBEARER_KEYS}sub.claim.name") or "sub",
            skew_ms=1000 * self._number(f"{OAUTHBEARER_KEYS}clock.skew.seconds", OAUTHBEARER),
        )
        return SignedTokens(KeySet(fetch, self._world, refresh_ms=refresh_ms), rules, self._world.wall_ms)

    def _unsecured_rules(self) -> TokenRules:
        """As the options of Kafka's login module say."""
        text = self._said("sasl.jaas.config", OAUTHBEARER)
        options = read_jaas(text).options if isinstance(text, str) else {}
        skew = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
        if not (skew.isascii() and skew.isdecimal()):
            raise ConfigError("sasl.jaas.config: unsecuredValidatorAllowableClockSkewMs is no number.")
        return TokenRules(
            subject_claim=options.get("unsecuredValidatorPrincipalClaimName", "sub"),
            scope_claim=options.get("unsecuredValidatorScopeClaimName", "scope"),
            scopes=frozenset(options.get("unsecuredValidatorRequiredScope", "").split()),
            skew_ms=int(skew),
            needs_issue_time=False,
        )


def sasl_listeners(config: BrokerConfig, world: World, credential_of: CredentialOf) -> dict[str, SaslListener]:
    """Those of all listeners that speak SASL. Raises `ConfigError`."""
    return {
        endpoint.listener: SaslListener(config, endpoint.listener, world, credential_of)
        for endpoint in config.listeners
        if config.security_protocol(endpoint.listener).has_sasl
    }
