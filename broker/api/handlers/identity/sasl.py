"""SaslHandshake (17), SaslAuthenticate (36): a connection says who it is (KIP-43, KIP-152, KIP-368)."""

import asyncio
from typing import Protocol

from broker.api.catalogue import CloseConnection, handles
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.permissions.of_cluster import AUTHENTICATION
from broker.api.services import WithSasl
from broker.security.sasl.exchange import ExchangeFailed
from broker.security.sasl.gate import Handshake
from protocol.errors import ErrorCode
from protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


class SaslServices(WithSasl, Protocol):
    """What these handlers use of the node."""


@handles(SaslHandshakeRequest, SaslHandshakeResponse, versions=range(0, 2), guard=AUTHENTICATION)
async def sasl_handshake(
    services: SaslServices, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Choose a mechanism. Answered at once, with those that are enabled on this listener.

    One that is not is UNSUPPORTED_SASL_MECHANISM, and the connection is closed after
    `connection.failed.authentication.delay.ms`. On a connection that is authenticated it begins the next session where
    sessions end (KIP-368), once a second at most; otherwise, and on a listener without SASL, it is ILLEGAL_SASL_STATE.
    v0: what follows are messages of the mechanism without anything around them; v1: SaslAuthenticate.
    """
    gate = context.connection.gate
    if gate is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    become = gate.handshake(request.mechanism, context.api_version)
    if become is Handshake.OUT_OF_TURN:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    answer = SaslHandshakeResponse(mechanisms=list(gate.enabled))
    if become is Handshake.UNKNOWN_MECHANISM:
        answer.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        raise await _refused(services, context.connection, "a mechanism that is not enabled", answer)
    return answer


@handles(SaslAuthenticateRequest, SaslAuthenticateResponse, versions=range(0, 3), guard=AUTHENTICATION)
async def sasl_authenticate(
    services: SaslServices, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Pass a message of the chosen mechanism. Answered at once; a failure after
    `connection.failed.authentication.delay.ms`, and the connection is closed.

    A failure is SASL_AUTHENTICATION_FAILED, in the same words whether the user exists or not. On a connection that is
    authenticated already, and on a listener without SASL, it is ILLEGAL_SASL_STATE. v1: how long the session lasts,
    after which the client has to authenticate again (KIP-368).
    """
    connection = context.connection
    gate = connection.gate
    if gate is None or gate.is_known:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
            auth_bytes=b"",
        )
    try:
        reply = await gate.authenticate(request.auth_bytes)
    except ExchangeFailed as failed:
        told = failed.told or (
            f"Authentication failed during {gate.what} due to invalid credentials with SASL mechanism {gate.mechanism}"
        )
        answer = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told, auth_bytes=b""
        )
        raise await _refused(services, connection, f"{gate.mechanism}, {failed.reason}", answer) from None
    if gate.is_known:
        connection.principal = f"User:{gate.name}"
        if not gate.is_needed:
            connection.gate = None
    return SaslAuthenticateResponse(auth_bytes=reply.message, session_lifetime_ms=reply.session_ms)


async def _refused(services: SaslServices, connection: ConnectionInfo, reason: str, answer: object) -> CloseConnection:
    """The end of a connection that failed, after a while: guessing takes its time."""
    listener = services.sasl[connection.listener]
    listener.failed(reason, connection.told)
    await asyncio.sleep(listener.failure_delay_ms / 1000)
    return CloseConnection("", answer)
