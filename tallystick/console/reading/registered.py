"""Bytes as people read them, with the schemas of a registry where they have one."""

from tallystick.console.reading.decoding import Decoded, Kind, as_hex, cut, decoded, laid_out
from tallystick.schemas.registry import Registry

_KINDS = {"AVRO": Kind.AVRO, "JSON": Kind.JSON, "PROTOBUF": Kind.PROTOBUF}


def decoded_with(registry: Registry, data: bytes | None, most: int, *, indent: int | None = None) -> Decoded:
    """With the schemas that are known by now. What is not of its schema is bytes, and the number of the schema."""
    read = registry.read(data, most)
    if data is None or read is None:
        return decoded(data, most, indent=indent)
    if read.text is None:
        plain = as_hex(data, most)
        return Decoded(plain.kind, plain.text, plain.size_bytes, plain.is_cut, read.number)
    return cut(_KINDS[read.kind], laid_out(read.text, indent, most), len(data), most, read.number)
