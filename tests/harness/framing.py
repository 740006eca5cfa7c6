"""Requests as bytes."""

from protocol.framing import request_parts


def request_frame(message: object, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """A whole request as one piece."""
    return b"".join(request_parts(message, version, correlation_id, client_id))
