"""From a frame to a handler, and from its result to the bytes of the answer.

A frame is a request without its length. What cannot be read, an unknown key and an unsupported version are a
`ProtocolError`: the connection closes, as Kafka's does. The one exception is ApiVersions, which is answered in the
oldest form whatever the request's version (KIP-511), for it is how a client finds out.
"""

from collections.abc import Generator, Mapping
from struct import Struct
from typing import Any, Final, TypeVar

from broker.api.catalogue import Entry
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.metering.request_meter import Timing
from broker.api.permissions import need
from broker.api.services import Services
from broker.process.time_slice import TimeSlice
from protocol.codec import decode_counted, decode_in_steps
from protocol.compile_decoder import MOST_ELEMENTS, TooManyElements
from protocol.errors import ErrorCode, ProtocolError
from protocol.framing import LENGTH, read_request_header, response_parts, response_parts_in_steps
from protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from protocol.messages.sasl import SaslAuthenticateRequest
from protocol.schema import Buffer, FieldSchema, fields_of, schema_of

PRODUCE = 0
API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36
DECODED_FACTOR = 45
"""How much more a request may weigh decoded than as a frame: arrays of empty structs do. Records stay what they are."""
TEXT_FACTOR = 4
"""One letter that needs four bytes makes all of its string as wide."""
ELEMENT_BYTES = 200
"""What the largest element with nothing in it weighs."""

AT_ONCE: Final = 2000
"""Elements of a message that are read or written at once: a few milliseconds. Larger ones take turns with others."""

REMEMBERED_BYTES = 256
"""The longest client id that is kept with its connection; it is the same in every request."""

T = TypeVar("T")
Steps = Generator[None, None, T]

_FIXED: Final = Struct(">hhih")
"""api key, version, correlation id, length of the client id."""


class Call:
    """One request on its way: what it is, and how its answer is to be written."""

    __slots__ = ("context", "elements", "entry", "is_large", "request", "timing", "undecoded")

    def __init__(
        self, entry: Entry, context: RequestContext, request: Any, elements: int, undecoded: memoryview | None = None
    ) -> None:
        self.entry = entry
        self.context = context
        self.request = request
        self.elements = elements
        """In all its arrays; of a request that is not decoded, the most there may be."""
        self.undecoded = undecoded
        """A request that is too large to be decoded at once, see `Dispatcher.decode`."""
        self.is_large = undecoded is not None
        self.timing: Timing | None = None
        """Where it is timed, as a few are in a broker that is watched."""

    def weight(self, frame_bytes: int) -> int:
        """What to count for the request, which begins to wait for its answer."""
        if self.timing is not None:
            self.timing.waits()
        if self.entry.api_key == PRODUCE and not self.is_large:
            return frame_bytes
        return min(frame_bytes * DECODED_FACTOR, frame_bytes * TEXT_FACTOR + (1 + self.elements) * ELEMENT_BYTES)

    def encode(self, response: Any) -> list[Buffer]:
        """The answer. Raises `LargeMessage` where it is not to be written at once, see `Dispatcher.encode`."""
        context = self.context
        parts = response_parts(context.api_key, context.api_version, context.correlation_id, response, AT_ONCE)
        if (meter := self.entry.meter) is not None:
            meter.answers(self.timing, response)
        return parts

    def encode_failure(self) -> list[Buffer] | None:
        """The answer after a bug of ours: UNKNOWN_SERVER_ERROR where the message has one place for it, else None."""
        response = empty_response(self.entry.response, ErrorCode.UNKNOWN_SERVER_ERROR)
        return None if response is None else self.encode(response)


class TokenCall(Call):
    """A message of a SASL mechanism with nothing around it, as after SaslHandshake 0; so is the answer. A failure has
    none."""

    __slots__ = ()

    def __init__(self, entry: Entry, connection: ConnectionInfo, message: Buffer) -> None:
        context = RequestContext(connection, SASL_AUTHENTICATE, 0, 0, None)
        super().__init__(entry, context, SaslAuthenticateRequest(auth_bytes=bytes(message)), 0)

    def encode(self, response: Any) -> list[Buffer]:
        token: bytes = response.auth_bytes
        return [] if response.error_code else [LENGTH.pack(len(token)), token]


class Decoded:
    """`Call.request` is there."""


class Encoded:
    """An answer as it is to be sent."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Buffer]) -> None:
        self.parts = parts


class UnsupportedApiVersions(Exception):
    """ApiVersions in a version we do not know; carries the answer, ready to be sent."""

    def __init__(self, parts: list[Buffer]) -> None:
        super().__init__()
        self.parts = parts


class Dispatcher:
    """Reads requests against the catalogue and calls handlers."""

    def __init__(self, services: Services, catalogue: Mapping[int, Entry]) -> None:
        self._services = services
        self._entries: dict[int, tuple[Entry, int]] = {
            key: (entry, schema_of(entry.request).flexible_since) for key, entry in catalogue.items()
        }

    def read(self, connection: ConnectionInfo, frame: Buffer) -> Call:
        """Decode a request. Raises `ProtocolError`, or `UnsupportedApiVersions`."""
        if (gate := connection.gate) is not None:
            if gate.expects_token:
                return TokenCall(self._entries[SASL_AUTHENTICATE][0], connection, frame)
            gate.admit(int.from_bytes(frame[:2]))
        if len(frame) < _FIXED.size:
            raise ProtocolError(f"a request of {len(frame)} bytes is shorter than its header")
        key, version, correlation_id, client_id_length = _FIXED.unpack_from(frame)
        found = self._entries.get(key)
        if found is None:
            raise ProtocolError(f"unknown api key {key} (version {version})")
        entry, flexible_since = found
        if version not in entry.versions:
            if key == API_VERSIONS:
                raise UnsupportedApiVersions(_other_versions_answer(entry, correlation_id))
            raise ProtocolError(f"unsupported version {version} of {entry.name}")
        body = _FIXED.size + (client_id_length if client_id_length > 0 else 0)
        if version >= flexible_since and body < len(frame) and frame[body] == 0:
            body += 1
        elif version >= flexible_since:
            _, body = read_request_header(memoryview(frame))
        client_id: str | None = connection.client_id
        if client_id_length < 0 or frame[_FIXED.size : _FIXED.size + client_id_length] != connection.client_id_bytes:
            client_id = _client_id(connection, frame, client_id_length)
        context = RequestContext(connection, key, version, correlation_id, client_id)
        request: object
        try:
            request, _, more = decode_counted(entry.request, version, frame, body, AT_ONCE)
        except TooManyElements:
            return Call(entry, context, None, MOST_ELEMENTS, memoryview(frame)[body:])
        return Call(entry, context, request, AT_ONCE - more)  # bytes behind it are ignored, as Kafka does

    async def decode(self, call: Call) -> Decoded:
        """Decode a large request, and let others have their turns. Raises `ProtocolError`."""
        undecoded, call.undecoded = call.undecoded, None
        assert undecoded is not None
        slice_ = self._services.environment.time_slice()
        with undecoded:
            steps: Generator[None, None, object] = decode_in_steps(
                call.entry.request, call.context.api_version, undecoded, 0, slice_.spent
            )
            call.request = await _finished(steps, slice_)
        return Decoded()

    async def encode(self, call: Call, response: Any) -> Encoded:
        """Write a large response, and let others have their turns."""
        slice_, context = self._services.environment.time_slice(), call.context
        if (meter := call.entry.meter) is not None:
            meter.answers(call.timing, response)
        steps = response_parts_in_steps(
            context.api_key, context.api_version, context.correlation_id, response, slice_.spent
        )
        return Encoded(await _finished(steps, slice_))

    def run(self, call: Call) -> Any:
        """What the handler returned: a response, `Deferred`, `NO_ANSWER`, or an awaitable of one of these."""
        entry, services, context = call.entry, self._services, call.context
        if (meter := entry.meter) is not None:
            meter.requests[context.api_version] += 1
        authorizer = services.authorizer
        if authorizer is None:
            return entry.handler(services, context, call.request)
        permissions = need.Permissions(authorizer, context, entry.name)
        return entry.guard.answer(need.Call(permissions, entry.handler, services, context), call.request)


async def _finished(steps: Steps[T], slice_: TimeSlice) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await slice_.wait_for_turn()


def _client_id(connection: ConnectionInfo, frame: Buffer, length: int) -> str | None:
    if length < 0:
        return None
    raw = bytes(frame[_FIXED.size : _FIXED.size + length])
    if len(raw) != length:
        raise ProtocolError("the client id ends outside its request")
    try:
        client_id = raw.decode()
    except UnicodeDecodeError:
        raise ProtocolError("the client id is not UTF-8") from None
    if length <= REMEMBERED_BYTES:
        connection.client_id_bytes, connection.client_id = raw, client_id
    return client_id


def _other_versions_answer(entry: Entry, correlation_id: int) -> list[Buffer]:
    """KIP-511: version 0, error 35, and the versions of ApiVersions itself."""
    versions = ApiVersion(
        api_key=API_VERSIONS, min_version=entry.advertised.start, max_version=entry.advertised.stop - 1
    )
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[versions])
    return response_parts(API_VERSIONS, 0, correlation_id, answer)


def empty_response(response: type, error: ErrorCode) -> Any | None:
    """An otherwise empty response of this class with `error_code`, or None where it has no such field at its top."""
    fields = fields_of(response)
    if not any(field.name == "error_code" for field in fields):
        return None
    values = {field.name: _empty(field) for field in fields}
    values["error_code"] = error
    return response(**values)


def _empty(field: FieldSchema) -> object:
    return [] if field.is_array and field.default is not None else field.default
