"""Bytes ⇄ messages. The one place that turns a table (see `protocol.schema`) into something that runs.

A (message, version) is compiled on first use. Decoding raises `ProtocolError` for whatever cannot be read, and
nothing else; it believes no length that the remaining bytes could not hold. Encoding a message that its own table
forbids (a string in an int, null where null is not allowed) is a bug of ours and raises what Python raises.

Also here: what stands around a record that a coordinator writes to its log.
"""

import struct
from collections.abc import Callable, Generator
from typing import Final, TypeVar

from protocol.compile_decoder import MOST_ELEMENTS, Decoder, StepDecoder, compile_decoder, compile_step_decoder
from protocol.compile_encoder import Encoder, StepEncoder, compile_encoder, compile_step_encoder
from protocol.errors import ProtocolError
from protocol.primitives import append_uvarint, read_uvarint
from protocol.schema import Buffer, MessageSchema, schema_of

M = TypeVar("M")

_INT16: Final = struct.Struct(">h")
_METADATA_FRAME_VERSION = 1
_decoders: dict[tuple[type, int], Decoder] = {}
_encoders: dict[tuple[type, int], Encoder] = {}
_step_decoders: dict[tuple[type, int], StepDecoder] = {}
_step_encoders: dict[tuple[type, int], StepEncoder] = {}


class UnknownVersion(ProtocolError):
    """A version that the table does not have."""


def encode(message: object, version: int) -> list[Buffer]:
    """The message as parts to be written one after the other; `Records` among them as they are, uncopied."""
    return encoder_of(type(message), version)(message, bytearray())


def encode_bytes(message: object, version: int) -> bytes:
    """The message as one piece."""
    return b"".join(encode(message, version))


def decode(
    cls: type[M], version: int, data: Buffer, offset: int = 0, most_elements: int = MOST_ELEMENTS
) -> tuple[M, int]:
    """Read a message that begins at `offset`; returns it and the offset behind it.

    What follows is the caller's: Kafka ignores bytes behind a request, and so does `framing`. Of a request, raises
    `TooManyElements` where its arrays have more than `most_elements`.
    """
    message, end, _ = decode_counted(cls, version, data, offset, most_elements)
    return message, end


def decode_counted(cls: type[M], version: int, data: Buffer, offset: int, most_elements: int) -> tuple[M, int, int]:
    """As `decode`; with how many elements more there might have been."""
    decoder = _decoders.get((cls, version)) or _compile_decoder(cls, version)
    view = data if isinstance(data, memoryview) else memoryview(data)
    try:
        made: tuple[M, int, int] = decoder(view, offset, len(view), most_elements)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{cls.__name__} version {version}: {error}") from error
    return made


def decode_in_steps(
    cls: type[M], version: int, data: Buffer, offset: int, spent: Callable[[], bool]
) -> Generator[None, None, M]:
    """As `decode`, for a large message: yields when its time is `spent`, returns the message."""
    decoder = _step_decoders.get((cls, version))
    if decoder is None:
        decoder = _step_decoders[cls, version] = compile_step_decoder(cls, _schema_with(cls, version), version)
    view = memoryview(data)
    try:
        made: tuple[M, int, int] = yield from decoder(view, offset, len(view), MOST_ELEMENTS, spent)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{cls.__name__} version {version}: {error}") from error
    finally:
        view.release()
    return made[0]


def encoder_of(cls: type, version: int) -> Encoder:
    """The function that writes one version of a message behind what a bytearray already holds."""
    return _encoders.get((cls, version)) or _compile_encoder(cls, version)


def step_encoder_of(cls: type, version: int) -> StepEncoder:
    """The same in steps, for a large message."""
    encoder = _step_encoders.get((cls, version))
    if encoder is None:
        encoder = _step_encoders[cls, version] = compile_step_encoder(cls, _schema_with(cls, version), version)
    return encoder


def _compile_decoder(cls: type, version: int) -> Decoder:
    made = _decoders[cls, version] = compile_decoder(cls, _schema_with(cls, version), version)
    return made


def _compile_encoder(cls: type, version: int) -> Encoder:
    made = _encoders[cls, version] = compile_encoder(cls, _schema_with(cls, version), version)
    return made


def _schema_with(cls: type, version: int) -> MessageSchema:
    schema = schema_of(cls)
    if version not in schema.versions:
        raise UnknownVersion(f"{schema.name} has no version {version}")
    return schema


# Records of __transaction_state and __consumer_offsets: a version in front of each value, and in front of each key
# the type of the record where one would expect a version.


def versioned(message: object, version: int) -> bytes:
    """A value: int16 version, then the message."""
    return _INT16.pack(version) + encode_bytes(message, version)


def versioned_in_steps(message: object, version: int, spent: Callable[[], bool]) -> Generator[None, None, bytes]:
    """A large value: yields when its time is `spent`."""
    parts = yield from step_encoder_of(type(message), version)(message, bytearray(_INT16.pack(version)), spent)
    return b"".join(parts)


def versioned_key(message: object) -> bytes:
    """A key: int16 record type, then version 0 of the message."""
    return _INT16.pack(schema_of(type(message)).api_key) + encode_bytes(message, 0)


def read_version(data: Buffer) -> int:
    """The int16 in front of a value (its version) or of a key (its record type)."""
    try:
        (version,) = _INT16.unpack_from(data)
    except struct.error as error:
        raise ProtocolError("no room for a version") from error
    return int(version)


def read_versioned(cls: type[M], data: Buffer) -> M:
    """A value. Raises `UnknownVersion` for one that a later release wrote: to guess would be to lose data."""
    return decode(cls, read_version(data), data, _INT16.size)[0]


def read_key(cls: type[M], data: Buffer) -> M:
    """A key, once `read_version` has found its type."""
    return decode(cls, 0, data, _INT16.size)[0]


# Records of __cluster_metadata: unsigned varints frame version, api key, version; then the message.


def metadata_frame(message: object, version: int) -> bytes:
    """A record of the metadata log."""
    frame = bytearray([_METADATA_FRAME_VERSION])
    append_uvarint(frame, schema_of(type(message)).api_key)
    append_uvarint(frame, version)
    return b"".join(encoder_of(type(message), version)(message, frame))


def read_metadata_frame(data: Buffer) -> tuple[int, int, int]:
    """(api key, version, offset of the message)."""
    try:
        frame_version, offset = read_uvarint(data, 0)
        api_key, offset = read_uvarint(data, offset)
        version, offset = read_uvarint(data, offset)
    except IndexError as error:
        raise ProtocolError("no room for a frame") from error
    if frame_version != _METADATA_FRAME_VERSION:
        raise UnknownVersion(f"metadata frame version {frame_version}")
    return api_key, version, offset
