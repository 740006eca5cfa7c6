"""The little of DER that no library takes out for us: one element after the other."""


class NotDer(Exception):
    """Another element than was expected, or half of one."""


def element(der: bytes, tag: int | None = None) -> tuple[bytes, bytes]:
    """The contents of the first element, which is to have this tag, and what is behind it. Raises `NotDer`."""
    if len(der) < 2 or (tag is not None and der[0] != tag):
        raise NotDer("another element than was expected")
    begin, length = 2, der[1]
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(der[2:begin], "big")
    if begin + length > len(der):
        raise NotDer("it ends in the middle")
    return der[begin : begin + length], der[begin + length :]
