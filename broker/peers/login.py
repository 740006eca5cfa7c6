"""This node as a client of another: by which mechanism, name and password of SASL it says who it is.

They stand where Kafka's brokers have theirs: `username` and `password` of the login module of the listener that nodes
use, for the mechanism that `sasl.mechanism.inter.broker.protocol` names. They are read for each new connection, so that
a password can be changed while a node runs.
"""

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.process.environment import Environment
from coordinator.cluster.keys.listener_keys import name_of
from protocol.errors import ErrorCode
from protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from protocol.sasl.jaas import read_jaas
from protocol.sasl.scram import SCRAM_BY_LABEL, MalformedScram, ScramMechanism
from protocol.sasl.scram_client import NONCE_BYTES, ScramClient

MECHANISM_KEY = "sasl.mechanism.inter.broker.protocol"
PLAIN = "PLAIN"
SPOKEN = (PLAIN, *SCRAM_BY_LABEL)

R = TypeVar("R")


class NotLetIn(Exception):
    """The other node does not believe that this one is who it says, or cannot show who it is itself."""


class Asks(Protocol):
    """A connection, as far as it is needed here."""

    async def ask(self, request: object, version: int, response: type[R]) -> R: ...


@dataclass(frozen=True, slots=True)
class Login:
    """Who this node is to others."""

    mechanism: str
    name: str
    password: str = field(repr=False)


def login_of(config: BrokerConfig, listener: str) -> Login:
    """As settings say it now. Raises `ConfigError`."""
    mechanism = config.get_str(MECHANISM_KEY)
    if mechanism not in SPOKEN:
        raise ConfigError(
            f"{MECHANISM_KEY}: nodes cannot say who they are by {mechanism}, but by {', '.join(SPOKEN)} "
            f"(listener {listener})."
        )
    enabled = config.of_listener(listener, "sasl.enabled.mechanisms")
    if not isinstance(enabled, tuple) or mechanism not in enabled:
        raise ConfigError(f"{MECHANISM_KEY}: listener {listener} does not take {mechanism} (sasl.enabled.mechanisms).")
    text = config.of_listener(listener, "sasl.jaas.config", mechanism)
    options = read_jaas(text).options if isinstance(text, str) else {}
    name, password = options.get("username", ""), options.get("password", "")
    if not name or not password:
        where = name_of(listener, "sasl.jaas.config", mechanism)
        raise ConfigError(f"{where}: username and password are missing, by which nodes say who they are.")
    return Login(mechanism, name, password)


async def log_in(connection: Asks, who: Login, environment: Environment) -> int:
    """Say who this node is. For how many ms the session lasts, 0 without an end. Raises `NotLetIn`."""
    shaken = await connection.ask(SaslHandshakeRequest(mechanism=who.mechanism), 1, SaslHandshakeResponse)
    if shaken.error_code != ErrorCode.NONE:
        raise NotLetIn(f"does not take {who.mechanism}")
    mechanism = SCRAM_BY_LABEL.get(who.mechanism)
    if mechanism is not None:
        return await _scram(connection, mechanism, who, environment)
    said = b"\0".join((b"", who.name.encode(), who.password.encode()))
    return (await _say(connection, said)).session_lifetime_ms


async def _scram(connection: Asks, mechanism: ScramMechanism, who: Login, environment: Environment) -> int:
    exchange = ScramClient(mechanism, who.name, who.password, environment.random_bytes(NONCE_BYTES))
    challenge = (await _say(connection, exchange.first)).auth_bytes
    try:
        final = await environment.run_beside(lambda: exchange.final(challenge))
    except MalformedScram as problem:
        raise NotLetIn(f"does not speak {who.mechanism}: {problem}") from None
    answer = await _say(connection, final)
    if not exchange.believes(answer.auth_bytes):
        raise NotLetIn("does not know the password itself")
    return answer.session_lifetime_ms


async def _say(connection: Asks, message: bytes) -> SaslAuthenticateResponse:
    answer = await connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse)
    if answer.error_code != ErrorCode.NONE:
        raise NotLetIn(f"does not let this node in: {answer.error_message or 'without a reason'}")
    return answer
