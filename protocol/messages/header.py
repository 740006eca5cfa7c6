"""The headers in front of every request and response."""

from protocol.schema import Int16, Int32, Kind, String, field, message


@message(kind=Kind.HEADER, versions=range(1, 3), flexible=2)
class RequestHeader:
    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: String | None = field(nullable_since=1, never_flexible=True)


@message(kind=Kind.HEADER, versions=range(0, 2), flexible=1)
class ResponseHeader:
    correlation_id: Int32
