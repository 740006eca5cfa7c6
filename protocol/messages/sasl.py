"""SaslHandshake, SaslAuthenticate (KIP-43, KIP-152, KIP-368), and the credentials of SCRAM users (KIP-554)."""

from protocol.schema import Bytes, Int8, Int16, Int32, Int64, Kind, String, field, message, struct


@message(kind=Kind.REQUEST, api_key=17, versions=range(0, 2))
class SaslHandshakeRequest:
    mechanism: String


@message(kind=Kind.RESPONSE, api_key=17, versions=range(0, 2))
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: list[String]


@message(kind=Kind.REQUEST, api_key=36, versions=range(0, 3), flexible=2)
class SaslAuthenticateRequest:
    auth_bytes: Bytes


@message(kind=Kind.RESPONSE, api_key=36, versions=range(0, 3), flexible=2)
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default="")
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field(since=1, default=0)


@struct
class ScramUserName:
    name: String


@message(kind=Kind.REQUEST, api_key=50, versions=range(0, 1), flexible=0)
class DescribeUserScramCredentialsRequest:
    users: list[ScramUserName] | None = field(nullable_since=0)


@struct
class ScramCredentialInfo:
    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    credential_infos: list[ScramCredentialInfo]


@message(kind=Kind.RESPONSE, api_key=50, versions=range(0, 1), flexible=0)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    results: list[DescribeUserScramCredentialsResult]


@struct
class ScramCredentialDeletion:
    name: String
    mechanism: Int8


@struct
class ScramCredentialUpsertion:
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(kind=Kind.REQUEST, api_key=51, versions=range(0, 1), flexible=0)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=51, versions=range(0, 1), flexible=0)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
