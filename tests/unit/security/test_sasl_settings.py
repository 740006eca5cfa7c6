"""What the settings of a listener ask of signed tokens."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.config.broker_config import BrokerConfig
from broker.process.environment import RealEnvironment
from broker.security.sasl.exchange import Authenticated, Challenge, Step
from broker.security.sasl.listener import sasl_listeners
from broker.security.sasl.oauthbearer import INVALID_TOKEN
from tests.unit.security.test_tokens import KEYS, NOW_S, signed

OAUTHBEARER = "sasl.oauthbearer"
LISTENER = {
    "listeners": "OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "OUTSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}
MINUTE_S = 60


class AtThatTime(RealEnvironment):
    """Its clock stands still."""

    def wall_ms(self) -> int:
        return NOW_S * 1000


@pytest.mark.parametrize(
    ("settings", "claims", "name"),
    [
        ({}, {}, "ute"),
        ({"expected.issuer": "", "expected.audience": "", "sub.claim.name": ""}, {}, "ute"),
        ({"expected.issuer": "i"}, {"iss": "i"}, "ute"),
        ({"expected.issuer": "i"}, {"iss": "j"}, None),
        ({"expected.audience": "a,b"}, {"aud": "b"}, "ute"),
        ({"expected.audience": "a,b"}, {"aud": "c"}, None),
        ({"sub.claim.name": "email"}, {"email": "uwe"}, "uwe"),
        ({"sub.claim.name": "email"}, {}, None),
        ({}, {"exp": -29}, "ute"),
        ({}, {"exp": -30}, None),
        ({"clock.skew.seconds": "10"}, {"exp": -10}, None),
        ({"clock.skew.seconds": "60"}, {"exp": -59}, "ute"),
    ],
)
def test_what_a_signed_token_has_to_say(
    settings: dict[str, str], claims: dict[str, Any], name: str | None, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(KEYS)
    said = {f"{OAUTHBEARER}.{key}": value for key, value in settings.items()}
    environment = AtThatTime(None)
    token = {"sub": "ute", "iat": NOW_S - 2 * MINUTE_S, **claims, "exp": NOW_S + claims.get("exp", MINUTE_S)}

    async def ask() -> Step:
        config = BrokerConfig({**LISTENER, f"{OAUTHBEARER}.jwks.endpoint.url": keys.as_uri(), **said})
        listener = sasl_listeners(config, environment, lambda mechanism, name: None)["OUTSIDE"]
        return await listener.begin("OAUTHBEARER").answer(b"n,,\x01auth=Bearer %s\x01\x01" % signed(token).encode())

    try:
        step = asyncio.run(ask())
    finally:
        environment.close()
    if name is None:
        assert step == Challenge(INVALID_TOKEN.encode())
    else:
        assert step == Authenticated(name, until_ms=token["exp"] * 1000)
