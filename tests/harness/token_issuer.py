"""Signed tokens for OAUTHBEARER: who makes them, and what a broker is told so that it believes them."""

import json
import time
from pathlib import Path

from joserfc import jws
from joserfc.jwk import RSAKey

MODULES = "org.apache.kafka.common.security.oauthbearer"


class TokenIssuer:
    """Has a key of its own."""

    def __init__(self) -> None:
        self._key = RSAKey.generate_key(2048)

    def token(self, name: str, *, lasts_s: int = 600) -> str:
        now = int(time.time())
        claims = {"sub": name, "iat": now, "exp": now + lasts_s, "aud": "kafka", "iss": "tests"}
        return jws.serialize_compact({"alg": "RS256", "kid": "k"}, json.dumps(claims), self._key)

    def settings(self, folder: Path) -> dict[str, str]:
        """For the guarded listener of a broker (`tests.harness.secure_broker`). The public key is put into the folder,
        as a JSON Web Key Set."""
        folder.mkdir(parents=True, exist_ok=True)
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [{**self._key.as_dict(private=False), "kid": "k"}]}))
        prefix = "listener.name.secure.oauthbearer"
        return {
            f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
            f"{prefix}.sasl.oauthbearer.expected.issuer": "tests",
            f"{prefix}.sasl.server.callback.handler.class": f"{MODULES}.OAuthBearerValidatorCallbackHandler",
            f"{prefix}.sasl.jaas.config": f"{MODULES}.OAuthBearerLoginModule required;",
        }
