"""Tokens of OAUTHBEARER: signatures, what they have to say, and where their keys come from."""

import asyncio
import base64
import hmac
import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from broker.process.environment import BESIDE_THREADS, RealEnvironment
from broker.security.sasl.fetched_keys import fetcher
from broker.security.sasl.key_set import KeySet, read_keys
from broker.security.sasl.tokens import SignedTokens, Token, TokenRefused, TokenRules, Tokens, UnsecuredTokens

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RSA, OTHER_RSA, EC = RSAKey.generate_key(2048), RSAKey.generate_key(2048), ECKey.generate_key("P-256")
CLAIMS: dict[str, Any] = {"sub": "ute", "iat": NOW_S, "exp": NOW_S + 60, "iss": "https://issuer", "aud": ["kafka", "x"]}
RULES = TokenRules(frozenset(("kafka", "other")), "https://issuer")


def public(key: Any, **more: str) -> dict[str, Any]:
    return {**key.as_dict(private=False), **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


KEYS = key_set(public(RSA, kid="one", use="sig"), public(EC, kid="two", alg="ES256"))


class World:
    """Time that passes at will; work beside the loop is done when `work` is called."""

    def __init__(self, text: bytes | Exception = KEYS) -> None:
        self.now_ms = 0
        self.text = text
        self.fetches = 0

    def fetch(self) -> bytes:
        self.fetches += 1
        if isinstance(self.text, Exception):
            raise self.text
        return self.text

    def monotonic_ms(self) -> int:
        return self.now_ms

    def run_far(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        async def run() -> Any:
            await asyncio.sleep(0)
            return work()

        return asyncio.ensure_future(run())


def signed(claims: dict[str, Any] | bytes, key: Any = RSA, **header: Any) -> str:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    header = {"alg": "RS256", "kid": "one", **header}
    return jws.serialize_compact(
        {name: value for name, value in header.items() if value}, payload, key, [header["alg"]]
    )


def unsecured(claims: dict[str, Any], signature: str = "", algorithm: str = "none") -> str:
    parts = ({"alg": algorithm}, claims)
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), signature]
    )


def with_hmac(claims: dict[str, Any], secret: bytes) -> str:
    """Signed with what everybody knows, as if it were a secret."""
    written = unsecured(claims, "", "HS256").removesuffix(".")
    signature = base64.urlsafe_b64encode(hmac.digest(secret, written.encode(), "sha256")).decode().rstrip("=")
    return f"{written}.{signature}"


def check(tokens: Tokens, token: str) -> Token:
    return asyncio.run(tokens.check(token))


def signed_tokens(world: World | None = None, rules: TokenRules = RULES) -> SignedTokens:
    world = world or World()
    return SignedTokens(KeySet(world.fetch, world, refresh_ms=1000_000), rules, lambda: NOW_MS)


@pytest.mark.parametrize(
    "token",
    [
        signed(CLAIMS),
        signed(CLAIMS, kid=None),
        signed(CLAIMS, alg="RS512"),
        signed(CLAIMS, alg="PS256"),
        signed(CLAIMS, EC, kid="two", alg="ES256"),
        signed(CLAIMS | {"aud": "other", "exp": NOW_S + 60.0, "nbf": NOW_S + 29}),
    ],
)
def test_a_token_that_its_issuer_signed(token: str) -> None:
    assert check(signed_tokens(), token) == Token("ute", NOW_MS + 60_000)


def test_the_latest_end_there_is() -> None:
    assert check(signed_tokens(), signed(CLAIMS | {"exp": 10**12})) == Token("ute", 10**15)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


def with_header(header: dict[str, Any]) -> str:
    """A signed token whose header is replaced."""
    _, *rest = signed(CLAIMS).split(".")
    return ".".join([base64.urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("="), *rest])


FORGED = {
    "another key": signed(CLAIMS, OTHER_RSA),
    "another key, without an id": signed(CLAIMS, OTHER_RSA, kid=None),
    "a key that is not known": signed(CLAIMS, kid="three"),
    "a public key as the secret of an HMAC": with_hmac(CLAIMS, RSA.as_pem(private=False)),
    "no signature": unsecured(CLAIMS),
    "no signature, and the name of one": unsecured(CLAIMS, "", "RS256"),
    "claims of another token": ".".join(
        [signed(CLAIMS).split(".")[0], signed(CLAIMS | {"sub": "admin"}).split(".")[1], signed(CLAIMS).split(".")[2]]
    ),
    "a key for other signatures": signed(CLAIMS, EC, kid="one", alg="ES256"),
    "two parts": "a.b",
    "no base64": "ä.b.c",
    "no JSON": "YQ.YQ.YQ",
    "a list": signed(b"[]"),
    "a name of a key that is none": with_header({"alg": "RS256", "kid": ["one"]}),
    "a list of signatures": with_header({"alg": ["RS256"], "kid": "one"}),
    "an object where the name of a signature should stand": with_header({"alg": {}, "kid": "one"}),
    "an abyss": signed(b"[" * 100_000),
}


@pytest.mark.parametrize("token", FORGED.values(), ids=FORGED.keys())
def test_tokens_that_nobody_signed(token: str) -> None:
    with pytest.raises(TokenRefused):
        check(signed_tokens(), token)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (CLAIMS | {"exp": NOW_S - 30}, "has ended"),
        (without("exp"), "without an end"),
        (CLAIMS | {"exp": "soon"}, "exp is no time"),
        (CLAIMS | {"exp": True}, "exp is no time"),
        (CLAIMS | {"exp": 10**12 + 1}, "exp is no time"),
        (CLAIMS | {"exp": 10**400}, "exp is no time"),
        (CLAIMS | {"exp": float("nan")}, "exp is no time"),
        (CLAIMS | {"nbf": NOW_S + 31}, "has not begun"),
        (without("iat"), "when it was issued"),
        (CLAIMS | {"iat": NOW_S + 61}, "before it was issued"),
        (CLAIMS | {"iss": "https://other"}, "another issuer"),
        (without("iss"), "another issuer"),
        (CLAIMS | {"aud": "kafkas"}, "another audience"),
        (without("aud"), "another audience"),
        (CLAIMS | {"sub": " "}, "names nobody"),
        (CLAIMS | {"sub": 5}, "names nobody"),
        (without("sub"), "names nobody"),
    ],
)
def test_what_a_signed_token_has_to_say(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        check(signed_tokens(), signed(claims))


def test_rules_ask_for_other_claims() -> None:
    rules = TokenRules(subject_claim="mail", scopes=frozenset(("a", "b")), scope_claim="scp", skew_ms=0)
    tokens = signed_tokens(rules=rules)
    claims = {"mail": "ute@x", "iat": NOW_S, "exp": NOW_S + 1}
    assert check(tokens, signed(claims | {"scp": "b c a"})).name == "ute@x"
    assert check(tokens, signed(claims | {"scp": ["a", "b"]})).name == "ute@x"
    for scope in ({}, {"scp": "ab"}, {"scp": ["a b"]}):
        with pytest.raises(TokenRefused, match="scope"):
            check(tokens, signed(claims | scope))


def test_unsecured_tokens_are_believed_and_signed_ones_are_not() -> None:
    tokens = UnsecuredTokens(TokenRules(needs_issue_time=False, skew_ms=0), lambda: NOW_MS)
    assert check(tokens, unsecured(without("iat"))) == Token("ute", NOW_MS + 60_000)
    for token in (unsecured(CLAIMS, "YQ"), unsecured(CLAIMS, "", "RS256"), unsecured(CLAIMS | {"exp": NOW_S}), "x"):
        with pytest.raises(TokenRefused):
            check(tokens, token)
    with pytest.raises(TokenRefused, match="not base64"):
        check(tokens, f"!{unsecured(CLAIMS)}")
    for token in ("", "a.b", f"{unsecured(CLAIMS)}.", f"{unsecured(CLAIMS)}.."):
        with pytest.raises(TokenRefused, match="not a token of three parts"):
            check(tokens, token)


def test_keys_are_fetched_once_for_all_who_wait() -> None:
    world = World()

    async def story() -> list[Token]:
        tokens = signed_tokens(world)
        return await asyncio.gather(*(tokens.check(signed(CLAIMS)) for _ in range(5)))

    assert len(asyncio.run(story())) == 5
    assert world.fetches == 1


def test_an_unknown_key_is_looked_for_now_and_then_and_old_keys_hold_meanwhile() -> None:
    world = World()

    async def knows(keys: KeySet, key_id: str) -> bool:
        found = bool(await keys.fitting("RS256", key_id))
        for _ in range(5):
            await asyncio.sleep(0)
        return found

    async def story() -> None:
        keys = KeySet(world.fetch, world, refresh_ms=60_000, least_ms=10_000)
        assert await knows(keys, "one") and not await knows(keys, "new")
        assert world.fetches == 1  # it was fetched a moment ago
        world.now_ms, world.text = 10_000, key_set(public(RSA, kid="one"), public(OTHER_RSA, kid="new"))
        assert await knows(keys, "new") and world.fetches == 2
        world.now_ms = 69_999
        assert await knows(keys, "one") and world.fetches == 2
        world.now_ms, world.text = 70_000, OSError("the issuer is away")
        assert await knows(keys, "one") and world.fetches == 3
        assert await knows(keys, "one") and world.fetches == 3
        world.now_ms, world.text = 90_000, key_set(public(OTHER_RSA, kid="new"))
        assert await knows(keys, "one") and world.fetches == 4  # it has not come yet
        assert not await knows(keys, "one")

    asyncio.run(story())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        key_set(),
        key_set(public(RSA, use="enc")),
        key_set({"kty": "oct", "k": "c2VjcmV0"}),
        b'{"keys": [1, null, "RSA", ["kty", "RSA"]]}',
        key_set({"kty": "RSA", "n": "!!", "e": "AQAB"}),
        b"[" * 100_000,
    ],
)
def test_a_set_without_a_key_that_signs_is_none(text: bytes) -> None:
    with pytest.raises(ValueError):
        read_keys(text)


def test_private_parts_of_keys_are_left_where_they_are() -> None:
    (key,) = read_keys(key_set({**RSA.as_dict(private=True), "kid": "one"}))
    assert not key.key.is_private


def test_keys_come_from_a_file_or_over_tls(tmp_path: Path) -> None:
    path, world = tmp_path / "keys.json", World()
    path.write_bytes(KEYS)
    assert fetcher(path.as_uri(), world.monotonic_ms)() == KEYS
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="more than"):
        fetcher(path.as_uri(), world.monotonic_ms)()
    with pytest.raises(OSError):
        fetcher((tmp_path / "other").as_uri(), world.monotonic_ms)()
    for url in ("http://issuer/keys", "ftp://issuer/keys", "keys.json", "data:,x"):
        with pytest.raises(ValueError, match="https"):
            fetcher(url, world.monotonic_ms)


def test_an_issuer_that_tells_its_keys_bit_by_bit_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b" " * 500_000 + KEYS)
    passes = itertools.count(0, 20_000)
    with pytest.raises(TimeoutError, match="longer than 30 s"):
        fetcher(path.as_uri(), lambda: next(passes))()
    in_time = itertools.chain([0], itertools.repeat(30_000))
    assert fetcher(path.as_uri(), lambda: next(in_time))().endswith(KEYS)
    late = itertools.chain([0], itertools.repeat(30_001))
    with pytest.raises(TimeoutError):
        fetcher(path.as_uri(), lambda: next(late))()


@pytest.mark.timeout(60)
def test_an_issuer_that_is_silent_holds_up_neither_logs_nor_the_end() -> None:
    """As many fetches as threads that open logs, and more."""
    told = threading.Event()
    environment = RealEnvironment(None)

    async def story() -> None:
        sets = [
            KeySet(lambda: KEYS if told.wait() else b"", environment, refresh_ms=1000)
            for _ in range(2 * BESIDE_THREADS)
        ]
        waiting = [asyncio.ensure_future(keys.fitting("RS256", "one")) for keys in sets]
        assert await environment.run_beside(lambda: "opened") == "opened"
        environment.close()
        assert not any(one.done() for one in waiting)
        told.set()
        assert all(await asyncio.gather(*waiting))

    asyncio.run(story())


@pytest.mark.timeout(60)
def test_where_no_thread_can_be_made_keys_are_not_fetched_on_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    world = World()

    async def story() -> list[Any]:
        return list(await KeySet(world.fetch, RealEnvironment(None), refresh_ms=1000).fitting("RS256", "one"))

    assert asyncio.run(story()) == [] and world.fetches == 0
    assert [record.getMessage() for record in caplog.records] == [
        "the keys of the issuer of tokens could not be fetched"
    ]
