"""How connections are kept from others, and who they are of: what every connection is made with."""

import ssl
from dataclasses import dataclass, field
from typing import Protocol


class TokenSource(Protocol):
    """Where tokens of OAUTHBEARER come from."""

    def token(self) -> str:
        """One that is good for a while. May block. Raises `NotAuthenticated` where there is none to be had, and
        `OSError` where asking again may help.
        """


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client is, and how it proves that."""

    mechanism: str
    name: str = ""
    password: str = field(default="", repr=False)
    by_token: bool = False
    """Of SCRAM: `name` and `password` are the id and the HMAC of a delegation token (KIP-48)."""
    tokens: TokenSource | None = field(default=None, repr=False)
    """Of OAUTHBEARER, which has neither name nor password."""
    extensions: tuple[tuple[str, str], ...] = ()
    """Of OAUTHBEARER: what is said beside the token (KIP-342)."""


@dataclass(frozen=True, slots=True)
class Security:
    """TLS, if there is any, and credentials, if they are wanted."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None

    def token(self) -> str | None:
        """The token to authenticate with; None where that is done otherwise. May block, see `TokenSource`."""
        tokens = None if self.credentials is None else self.credentials.tokens
        return None if tokens is None else tokens.token()


PLAINTEXT = Security()
