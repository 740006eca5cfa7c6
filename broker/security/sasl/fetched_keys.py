"""Bringing a key set from where its issuer keeps it. Of its own, because HTTP takes memory, and few brokers need it."""

import http.client
import ssl
import urllib.request
from collections.abc import Callable

MOST_BYTES = 1 << 20
PIECE_BYTES = 64 << 10
FETCH_S = 10.0
"""How long the issuer's machine may be silent."""
WHOLE_FETCH_S = 30


def fetcher(url: str, monotonic_ms: Callable[[], int]) -> Callable[[], bytes]:
    """What fetches a `file:` or `https:` address; a redirection is an error. Raises `ValueError` for any other;
    what it gives raises `OSError` and `ValueError`."""
    if not url.startswith(("https://", "file:/")):
        raise ValueError("keys come from an https: or a file: address")
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.FileHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)

    def fetch() -> bytes:
        ends_ms = monotonic_ms() + WHOLE_FETCH_S * 1000
        text = bytearray()
        try:
            with opener.open(url, timeout=FETCH_S) as answer:
                while piece := answer.read1(PIECE_BYTES):
                    text += piece
                    if len(text) > MOST_BYTES:
                        raise ValueError(f"a JSON Web Key Set of more than {MOST_BYTES} bytes")
                    if monotonic_ms() > ends_ms:
                        raise TimeoutError(f"a JSON Web Key Set that takes longer than {WHOLE_FETCH_S} s")
        except http.client.HTTPException as error:
            raise OSError(f"no answer in HTTP: {error!r}") from error
        return bytes(text)

    return fetch
