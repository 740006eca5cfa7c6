"""What is said first on a connection: which versions the broker speaks, and who the client is.

A generator of requests that is sent their responses, so that connections of asyncio and blocking ones say the same.
"""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.framing import API_VERSIONS
from protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from protocol.schema import schema_of
from tallystick.client.errors import UnsupportedByBroker, check

_FIRST_TRY = 4
"""The version of ApiVersions to begin with; a broker that does not know it says so (KIP-511)."""
_ERROR_CODE = slice(4, 6)
"""Where the error code of an ApiVersions response stands, in any version."""

Versions = Mapping[int, range]
"""What a broker lists, by API key."""


class Asked(NamedTuple):
    """A request, and the version to send it in."""

    request: object
    version: int


def versions_asked() -> Generator[Asked, Any, ApiVersionsResponse]:
    """Ask what the broker speaks."""
    request = ApiVersionsRequest(client_software_name="tallystick", client_software_version="0.1.0")
    answer: ApiVersionsResponse = yield Asked(request, _FIRST_TRY)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        known = [key.max_version for key in answer.api_keys if key.api_key == API_VERSIONS]
        answer = yield Asked(request, min(_FIRST_TRY, max(known, default=0)))
    check(answer.error_code)
    return answer


def versions_in(answer: ApiVersionsResponse) -> dict[int, range]:
    """What the broker lists."""
    return {key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys}


def common_version(request: type, theirs: Versions) -> int:
    """The highest version that both sides know. Raises `UnsupportedByBroker`."""
    schema = schema_of(request)
    listed = theirs.get(schema.api_key, range(0))
    common = [version for version in schema.versions if version in listed]
    if not common:
        raise UnsupportedByBroker(f"{schema.name}: we know {schema.versions}, the broker {listed}")
    return common[-1]


def version_answered(api_key: int, version: int, frame: bytes | bytearray | memoryview) -> int:
    """In which version a response is written: one to an unknown version of ApiVersions is always in version 0."""
    if api_key == API_VERSIONS and int.from_bytes(frame[_ERROR_CODE], "big") == ErrorCode.UNSUPPORTED_VERSION:
        return 0
    return version
