"""This node as a client of another: by which mechanism, name and password of SASL it says who it is.

They stand where Kafka's brokers have theirs: `username` and `password` of the login module of the listener that nodes
use, for the mechanism that `sasl.mechanism.inter.broker.protocol` names. They are read for each new connection, so that
a password can be changed while a node runs.
"""

import base64
import hmac
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
from protocol.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_BY_LABEL,
    MalformedScram,
    ScramMechanism,
    client_final,
    client_final_without_proof,
    client_first,
    client_proof,
    conversation_of,
    credential,
    read_server_first,
    salted_password,
    server_final,
    server_signature,
)

MECHANISM_KEY = "sasl.mechanism.inter.broker.protocol"
PLAIN = "PLAIN"
SPOKEN = (PLAIN, *SCRAM_BY_LABEL)
NONCE_BYTES = 18

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
    drawn = base64.b64encode(environment.random_bytes(NONCE_BYTES)).decode("ascii")
    bare = client_first(who.name, drawn)
    challenge = (await _say(connection, b"n,," + bare)).auth_bytes
    try:
        nonce, salt, iterations = read_server_first(challenge)
    except MalformedScram as problem:
        raise NotLetIn(f"does not speak {who.mechanism}: {problem}") from None
    if not nonce.startswith(drawn) or not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise NotLetIn("sends a challenge that is not to be trusted")
    salted = await environment.run_beside(lambda: salted_password(mechanism, who.password, salt, iterations))
    without_proof = client_final_without_proof(nonce)
    conversation = conversation_of(bare, challenge, without_proof)
    answer = await _say(connection, client_final(without_proof, client_proof(mechanism, salted, conversation)))
    kept = credential(mechanism, salted, salt, iterations)
    if not hmac.compare_digest(answer.auth_bytes, server_final(server_signature(mechanism, kept, conversation))):
        raise NotLetIn("does not know the password itself")
    return answer.session_lifetime_ms


async def _say(connection: Asks, message: bytes) -> SaslAuthenticateResponse:
    answer = await connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse)
    if answer.error_code != ErrorCode.NONE:
        raise NotLetIn(f"does not let this node in: {answer.error_message or 'without a reason'}")
    return answer
