"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41) as
Kafka answers them where `delegation.token.secret.key` is not set: there are no tokens, and each request is refused.

First who may not ask for tokens at all is told so: who is not known, for a token stands for somebody. Then what is
wrong with the request, and then that there are none.
"""

from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.permissions.need import WithAuthorizer, permissions_of
from broker.api.permissions.of_cluster import CREATE_TOKEN, CREATE_TOKEN_OF_ANOTHER, TOKENS
from broker.api.services import WithConfig
from broker.config.security_protocols import SecurityProtocol
from protocol.errors import ErrorCode
from protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

ANONYMOUS = "User:ANONYMOUS"
USER = "User"
DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NO_TIME = -1
"""In an answer that was not asked of the tokens; theirs have zeros."""


class TokenServices(WithConfig, WithAuthorizer, Protocol):
    """What these handlers use of the node."""


def _refusal(services: TokenServices, connection: ConnectionInfo) -> ErrorCode:
    """What whoever asks on this connection is told."""
    spoken = services.config.security_protocol(connection.listener)
    is_unknown = spoken is SecurityProtocol.SSL and connection.principal == ANONYMOUS
    if is_unknown or spoken is SecurityProtocol.PLAINTEXT:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return DISABLED


@handles(CreateDelegationTokenRequest, CreateDelegationTokenResponse, versions=range(1, 4), guard=CREATE_TOKEN)
async def create_delegation_token(
    services: TokenServices, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Refused, at once: there are no delegation tokens.

    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a PLAINTEXT listener and on an SSL one without a client's certificate;
    DELEGATION_TOKEN_AUTHORIZATION_FAILED, of an owner that is another (v3, KIP-373), without CreateTokens of that user;
    INVALID_PRINCIPAL_TYPE, with a renewer that is no user; else DELEGATION_TOKEN_AUTH_DISABLED. An owner with a name
    and no type is of type "" (Kafka answers UNKNOWN_SERVER_ERROR).
    """
    requester = context.connection.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    error = _refusal(services, context.connection)
    permissions = permissions_of(services, context, "CreateDelegationToken")
    if error is DISABLED:
        if owner != requester and permissions is not None and not permissions.have(CREATE_TOKEN_OF_ANOTHER, owner):
            error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        elif any(renewer.principal_type != USER for renewer in request.renewers):
            error = ErrorCode.INVALID_PRINCIPAL_TYPE
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    time = 0 if error is DISABLED else NO_TIME
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=time,
        expiry_timestamp_ms=time,
        max_timestamp_ms=time,
    )


@handles(RenewDelegationTokenRequest, RenewDelegationTokenResponse, versions=range(1, 3), guard=TOKENS)
async def renew_delegation_token(
    services: TokenServices, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Refused, at once: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED."""
    error = _refusal(services, context.connection)
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=0 if error is DISABLED else NO_TIME)


@handles(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, versions=range(1, 3), guard=TOKENS)
async def expire_delegation_token(
    services: TokenServices, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Refused, at once: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED."""
    error = _refusal(services, context.connection)
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=0 if error is DISABLED else NO_TIME)


@handles(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, versions=range(1, 4), guard=TOKENS)
async def describe_delegation_token(
    services: TokenServices, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refused, at once: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED."""
    return DescribeDelegationTokenResponse(error_code=_refusal(services, context.connection), tokens=[])
