"""Delegation tokens (KIP-48, KIP-373)."""

from protocol.schema import Bytes, Int16, Int32, Int64, Kind, String, field, message, struct


@struct
class CreatableRenewers:
    principal_type: String
    principal_name: String


@message(kind=Kind.REQUEST, api_key=38, versions=range(1, 4), flexible=2)
class CreateDelegationTokenRequest:
    owner_principal_type: String | None = field(since=3, nullable_since=3, default=None)
    owner_principal_name: String | None = field(since=3, nullable_since=3, default=None)
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


@message(kind=Kind.RESPONSE, api_key=38, versions=range(1, 4), flexible=2)
class CreateDelegationTokenResponse:
    error_code: Int16 = 0
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0


@message(kind=Kind.REQUEST, api_key=39, versions=range(1, 3), flexible=2)
class RenewDelegationTokenRequest:
    hmac: Bytes
    renew_period_ms: Int64


@message(kind=Kind.RESPONSE, api_key=39, versions=range(1, 3), flexible=2)
class RenewDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@message(kind=Kind.REQUEST, api_key=40, versions=range(1, 3), flexible=2)
class ExpireDelegationTokenRequest:
    hmac: Bytes
    expiry_time_period_ms: Int64


@message(kind=Kind.RESPONSE, api_key=40, versions=range(1, 3), flexible=2)
class ExpireDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@struct
class DescribeDelegationTokenOwner:
    principal_type: String
    principal_name: String


@message(kind=Kind.REQUEST, api_key=41, versions=range(1, 4), flexible=2)
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field(nullable_since=0)


@struct
class DescribedDelegationTokenRenewer:
    principal_type: String
    principal_name: String


@struct
class DescribedDelegationToken:
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[DescribedDelegationTokenRenewer]


@message(kind=Kind.RESPONSE, api_key=41, versions=range(1, 4), flexible=2)
class DescribeDelegationTokenResponse:
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
