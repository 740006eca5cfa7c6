"""What stands around a message on a connection: its length, and a header that says whose and which it is.

    request   int32 length | header v1 or v2 | message         response   int32 length | header v0 or v1 | message

Flexible messages (KIP-482) have the later header, with a tag section. The one exception: the response to ApiVersions
always has header v0, for its reader may not know the version it is in (KIP-511).

Bytes behind a message are ignored, as Kafka's broker does.
"""

import struct
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Final

from protocol.codec import decode, encoder_of, step_encoder_of
from protocol.compile_encoder import UNLIMITED
from protocol.errors import ProtocolError
from protocol.messages import (
    acls,
    client_quotas,
    configs,
    consumer_groups,
    delegation_tokens,
    features,
    fetch,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    offsets,
    placement,
    produce,
    quorum,
    sasl,
    telemetry,
    topics,
    transactions,
)
from protocol.messages.header import RequestHeader, ResponseHeader
from protocol.messages.share import acknowledge as share_acknowledge
from protocol.messages.share import fetch as share_fetch
from protocol.messages.share import groups as share_groups
from protocol.messages.share import offsets as share_offsets
from protocol.messages.share import state as share_state
from protocol.messages.streams import groups as streams_groups
from protocol.schema import Buffer, Kind, schema_of

API_VERSIONS: Final = 18
LENGTH: Final = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_LENGTH_AND_CORRELATION: Final = struct.Struct(">ii")
_MODULES = (
    *(acls, client_quotas, configs, consumer_groups, delegation_tokens, features, fetch, group_offsets, groups),
    *(log_dirs, metadata, offsets, placement, produce, quorum, sasl, telemetry, topics, transactions),
    *(share_acknowledge, share_fetch, share_groups, share_offsets, share_state, streams_groups),
)


class UnknownApi(ProtocolError):
    """A request whose key stands for nothing here. Kafka closes the connection, and so do we."""

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(f"no API has the key {api_key} (version {version})")
        self.api_key = api_key
        self.version = version


def _messages(kind: Kind, modules: tuple[ModuleType, ...]) -> dict[int, type]:
    """All messages of a kind, by key."""
    declared = (cls for module in modules for cls in vars(module).values() if hasattr(cls, "__wire__"))
    schemas = sorted(((schema_of(cls), cls) for cls in declared), key=lambda pair: pair[0].api_key)
    return {schema.api_key: cls for schema, cls in schemas if schema.kind is kind}


REQUESTS: dict[int, type] = _messages(Kind.REQUEST, _MODULES)
RESPONSES: dict[int, type] = _messages(Kind.RESPONSE, _MODULES)
_FLEXIBLE_SINCE: Final = {key: schema_of(cls).flexible_since for key, cls in REQUESTS.items()}


def read_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header of a request (without its length) and where the message begins.

    The version is not checked here: ApiVersions answers one it does not know, all others close the connection.
    """
    try:
        api_key, version = _KEY_AND_VERSION.unpack_from(frame)
    except struct.error as error:
        raise ProtocolError("a request too short to say what it is") from error
    flexible_since = _FLEXIBLE_SINCE.get(api_key)
    if flexible_since is None:
        raise UnknownApi(api_key, version)
    return decode(RequestHeader, 2 if version >= flexible_since else 1, frame)


def response_parts(
    api_key: int, version: int, correlation_id: int, message: object, most_elements: int = UNLIMITED
) -> list[Buffer]:
    """A whole response, to be written part by part. The first part holds length and header. Raises `LargeMessage` where
    its arrays have more than `most_elements`."""
    flexible = version >= _FLEXIBLE_SINCE[api_key] and api_key != API_VERSIONS
    parts = encoder_of(type(message), version)(message, bytearray(9 if flexible else 8), most_elements)
    return _with_head(parts, correlation_id)


def response_parts_in_steps(
    api_key: int, version: int, correlation_id: int, message: object, spent: Callable[[], bool]
) -> Generator[None, None, list[Buffer]]:
    """The same for a large one: yields when its time is `spent`."""
    flexible = version >= _FLEXIBLE_SINCE[api_key] and api_key != API_VERSIONS
    parts = yield from step_encoder_of(type(message), version)(message, bytearray(9 if flexible else 8), spent)
    return _with_head(parts, correlation_id)


def _with_head(parts: list[Buffer], correlation_id: int) -> list[Buffer]:
    first = parts[0]
    assert isinstance(first, bytearray)
    size = len(first) if len(parts) == 1 else sum(map(len, parts))
    _LENGTH_AND_CORRELATION.pack_into(first, 0, size - LENGTH.size, correlation_id)
    return parts


def request_parts(message: object, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """A whole request, to be written part by part."""
    api_key = schema_of(type(message)).api_key
    header = RequestHeader(
        request_api_key=api_key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    header_version = 2 if version >= _FLEXIBLE_SINCE[api_key] else 1
    (begun,) = encoder_of(RequestHeader, header_version)(header, bytearray(LENGTH.size))
    assert isinstance(begun, bytearray)
    parts = encoder_of(type(message), version)(message, begun)
    LENGTH.pack_into(begun, 0, sum(map(len, parts)) - LENGTH.size)
    return parts


def read_response(api_key: int, version: int, frame: Buffer) -> tuple[int, object]:
    """The correlation id and the message of a response (without its length)."""
    flexible = version >= _FLEXIBLE_SINCE[api_key] and api_key != API_VERSIONS
    header, offset = decode(ResponseHeader, 1 if flexible else 0, frame)
    return header.correlation_id, decode(RESPONSES[api_key], version, frame, offset)[0]
