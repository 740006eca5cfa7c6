"""OAUTHBEARER (RFC 7628): a token of somebody whom both sides believe.

    client    n,[a=authorization id], ^A auth=Bearer TOKEN ^A [key=value ^A ...] ^A
    server    nothing; or {"status":"invalid_token"}, and the client's ^A ends the exchange

One token is looked at in an exchange. (Kafka's server looks at as many as come.)
"""

import re

from broker.security.sasl.exchange import Authenticated, Challenge, ExchangeFailed, Step
from broker.security.sasl.tokens import TokenRefused, Tokens

INVALID_TOKEN = '{"status":"invalid_token"}'  # noqa: S105  an answer of ours
_CREDENTIAL = re.compile(r"(\w+) +([-_.a-zA-Z0-9]+)", re.ASCII)
_PAIR = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")


class OAuthBearerExchange:
    """See the head of this file."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._refused: TokenRefused | None = None

    async def answer(self, message: bytes) -> Step:
        if self._refused is not None:
            raise ExchangeFailed(str(self._refused), INVALID_TOKEN)
        authorization_id, written = read_initial(message)
        try:
            token = await self._tokens.check(written)
        except TokenRefused as refused:
            self._refused = refused
            return Challenge(INVALID_TOKEN.encode())
        if authorization_id not in ("", token.name):
            raise ExchangeFailed(
                "another authorization id",
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({token.name})",
            )
        return Authenticated(token.name, until_ms=token.until_ms)


def read_initial(message: bytes) -> tuple[str, str]:
    """(authorization id, token). Raises `ExchangeFailed`."""
    malformed = ExchangeFailed("not a message of OAUTHBEARER")
    try:
        header, *pairs = message.decode("ascii").split("\x01")
    except UnicodeDecodeError:
        raise malformed from None
    flag, comma, authorization = header.partition(",")
    if flag != "n" or not comma or not authorization.endswith(",") or pairs[-2:] != ["", ""]:
        raise malformed
    matches = [_PAIR.fullmatch(pair) for pair in pairs[:-2]]
    values = {match.group(1): match.group(2) for match in matches if match is not None}
    credential = _CREDENTIAL.fullmatch(values.get("auth", ""))
    if None in matches or len(values) < len(matches) or credential is None or credential.group(1).lower() != "bearer":
        raise malformed
    written = authorization.removesuffix(",")
    if written and (not written.startswith("a=") or len(written) == 2):
        raise malformed
    return written[2:].replace("=2C", ",").replace("=3D", "="), credential.group(2)
