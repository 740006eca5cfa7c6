"""Varints and ids at their edges."""

import pytest

from protocol.errors import ProtocolError
from protocol.primitives import append_uvarint, append_varlong, read_uvarint, read_varlong


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (16384, "808001"), (0xFFFFFFFF, "ffffffff0f")],
)
def test_an_unsigned_varint_is_seven_bits_a_byte_lowest_first(value: int, written: str) -> None:
    out = bytearray()
    append_uvarint(out, value)
    assert out.hex() == written
    assert read_uvarint(out, 0) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(1 << 63), "ff" * 9 + "01")],
)
def test_a_signed_varint_is_zig_zag(value: int, written: str) -> None:
    out = bytearray()
    append_varlong(out, value)
    assert out.hex() == written
    assert read_varlong(out, 0) == (value, len(out))


@pytest.mark.parametrize("data", ["ffffffffff01", "ffffffff1f", "808080808000"])
def test_an_unsigned_varint_beyond_32_bits_is_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["ff" * 10 + "01", "ff" * 9 + "02"])
def test_a_signed_varint_beyond_64_bits_is_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        read_varlong(bytes.fromhex(data), 0)
