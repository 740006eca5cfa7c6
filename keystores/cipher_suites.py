"""Java's names of cipher suites, and what OpenSSL calls them.

Suites of TLS 1.3 are a matter of their own: they have the same names on both sides, and Python lets OpenSSL choose
between all three or, with an upper version of 1.2, none.
"""

from collections.abc import Iterable
from dataclasses import dataclass

TLS_1_3 = frozenset(("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"))
EXCHANGES = {"TLS_ECDHE_ECDSA": "ECDHE-ECDSA", "TLS_ECDHE_RSA": "ECDHE-RSA", "TLS_DHE_RSA": "DHE-RSA", "TLS_RSA": ""}
CIPHERS = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}


class UnknownSuite(Exception):
    """A name that means nothing here; a sentence without its end for the operator."""


@dataclass(frozen=True, slots=True)
class Suites:
    """A choice of suites. `below_1_3`: as OpenSSL's list for TLS 1.2."""

    below_1_3: str
    for_1_3: bool


def read_suites(names: Iterable[str]) -> Suites | None:
    """None: nothing was chosen. Raises `UnknownSuite`."""
    chosen = list(names)
    if not chosen:
        return None
    newest = TLS_1_3.intersection(chosen)
    if newest and newest != TLS_1_3:
        missing = ", ".join(sorted(TLS_1_3 - newest))
        raise UnknownSuite(f"ssl.cipher.suites: of TLS 1.3 all suites can be had or none, and {missing} is not there")
    return Suites(":".join(_name(one) for one in chosen if one not in TLS_1_3), bool(newest))


def _name(suite: str) -> str:
    exchange, _, cipher = suite.partition("_WITH_")
    if exchange not in EXCHANGES or cipher not in CIPHERS:
        raise UnknownSuite(f"ssl.cipher.suites: {suite} is not known here")
    return "-".join(filter(None, (EXCHANGES[exchange], CIPHERS[cipher])))
