"""PLAIN, SCRAM and OAUTHBEARER as machines from bytes to bytes, with the vectors of their RFCs."""

import asyncio
import base64
import os
import re
from typing import Any

import pytest

from broker.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Authenticated, Challenge, Exchange, ExchangeFailed
from broker.security.sasl.first_users import read_first_users
from broker.security.sasl.oauthbearer import INVALID_TOKEN, OAuthBearerExchange
from broker.security.sasl.plain import INVALID, PlainExchange
from broker.security.sasl.scram import MadeUpCredentials, ScramExchange
from broker.security.sasl.tokens import Token, TokenRefused
from protocol.sasl.scram import (
    ScramCredential,
    ScramMechanism,
    client_final,
    client_final_without_proof,
    client_first,
    client_proof,
    conversation_of,
    credential,
    proof_holds,
    read_client_final,
    read_client_first,
    read_server_first,
    salted_password,
    server_final,
    server_signature,
    written_salt,
)
from tallystick.client.sasl import salt_and_salted

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def answer(exchange: Exchange, message: bytes) -> Any:
    return asyncio.run(exchange.answer(message))


def failure(exchange: Exchange, message: bytes) -> tuple[str, str | None]:
    with pytest.raises(ExchangeFailed) as failed:
        answer(exchange, message)
    return failed.value.reason, failed.value.told


# ---------------------------------------------------------------------------------------------------------- PLAIN

PASSWORDS = {"tim": "tanstaaftanstaaf", "ute": "geheim, ü"}


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (b"\0tim\0tanstaaftanstaaf", "tim"),  # RFC 4616, section 4
        (b"tim\0tim\0tanstaaftanstaaf", "tim"),
        ("\0ute\0geheim, ü".encode(), "ute"),
    ],
)
def test_plain_lets_in_who_knows_the_password(message: bytes, name: str) -> None:
    assert answer(PlainExchange(PASSWORDS), message) == Authenticated(name)


EXPECTED = "Invalid SASL/PLAIN response: expected 3 tokens, got"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\0tim\0wrong", INVALID),
        (b"\0nobody\0tanstaaftanstaaf", INVALID),
        (b"\0nobody\0\xff", INVALID),
        (b"Ursel\0tim\0wrong", INVALID),
        (b"Ursel\0tim\0tanstaaftanstaaf", OTHER_AUTHORIZATION_ID),
        (b"\0\0tanstaaftanstaaf", "Authentication failed: username not specified"),
        (b"\0tim\0", "Authentication failed: password not specified"),
        (b"tim\0tanstaaftanstaaf", f"{EXPECTED} 2"),
        (b"\0tim\0tanstaaftanstaaf\0", f"{EXPECTED} 4"),
        (bytes(1000), f"{EXPECTED} 4"),
        (b"", f"{EXPECTED} 1"),
    ],
)
def test_plain_keeps_out_everybody_else(message: bytes, told: str | None) -> None:
    reason, said = failure(PlainExchange(PASSWORDS), message)
    assert said == told
    assert "tanstaaf" not in reason and "nobody" not in reason


# ---------------------------------------------------------------------------------------------------------- SCRAM

PENCIL_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, NONCE = "rOprNGfwEbeRWgbNEkqO", "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_exchange_of_rfc_7677() -> None:
    """Section 3, from both sides."""
    salted = salted_password(SHA_256, "pencil", PENCIL_SALT, 4096)
    kept = credential(SHA_256, salted, PENCIL_SALT, 4096)
    first, final = read_client_first(FIRST), read_client_final(FINAL)
    assert (first.name, first.nonce, first.authorization_id, final.header) == ("user", CLIENT_NONCE, "", b"n,,")
    assert read_server_first(SERVER_FIRST) == (NONCE, PENCIL_SALT, 4096)
    conversation = conversation_of(first.bare, SERVER_FIRST, final.without_proof)
    assert proof_holds(SHA_256, kept, conversation, final.proof)
    assert server_final(server_signature(SHA_256, kept, conversation)) == SERVER_FINAL
    assert client_first("user", CLIENT_NONCE) == first.bare
    without_proof = client_final_without_proof(NONCE)
    assert client_final(without_proof, client_proof(SHA_256, salted, conversation)) == FINAL


class User:
    """A client of SCRAM, for one user and one password."""

    def __init__(self, mechanism: ScramMechanism, name: str, password: str) -> None:
        self.mechanism, self.name, self.password = mechanism, name, password
        self.bare = client_first(name, "clientnonce")

    def final(self, challenge: bytes) -> bytes:
        nonce, salt, iterations = read_server_first(challenge)
        salted = salted_password(self.mechanism, self.password, salt, iterations)
        without_proof = client_final_without_proof(nonce)
        return client_final(
            without_proof,
            client_proof(self.mechanism, salted, conversation_of(self.bare, challenge, without_proof)),
        )


def server(mechanism: ScramMechanism = SHA_256, nonce: bytes = b"0123456789abcdefgh") -> ScramExchange:
    kept = {
        (mechanism, name): credential(mechanism, salted_password(mechanism, "right", b"salt", 4096), b"salt", 4096)
        for name in ("ute", "u,t=e", "ütë")
    }
    return ScramExchange(mechanism, lambda *key: kept.get(key), MadeUpCredentials(b"secret"), nonce)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", ["ute", "u,t=e", "ütë"])
@pytest.mark.parametrize("header", [b"n,,", b"y,,", b"n,a=%s,"])
def test_scram_lets_in_who_knows_the_password(mechanism: ScramMechanism, name: str, header: bytes) -> None:
    user, exchange = User(mechanism, name, "right"), server(mechanism)
    written = user.bare[2 : user.bare.index(b",r=")]
    header = header.replace(b"%s", written)
    challenge = answer(exchange, header + user.bare)
    assert isinstance(challenge, Challenge)
    final = user.final(challenge.message)
    _, salt, iterations = read_server_first(challenge.message)
    if header != b"n,,":  # what was said at first is said again
        changed = final.replace(b"c=biws", b"c=" + base64.b64encode(header))
        salted = salted_password(mechanism, "right", salt, iterations)
        without_proof = changed[: changed.index(b",p=")]
        final = client_final(
            without_proof,
            client_proof(mechanism, salted, conversation_of(user.bare, challenge.message, without_proof)),
        )
    known = answer(exchange, final)
    assert known.name == name and known.message.startswith(b"v=")


def test_a_wrong_password_and_a_user_that_does_not_exist_are_told_apart_by_nothing() -> None:
    failures = []
    for name, password in (("ute", "wrong"), ("nobody", "right"), ("nobody", "wrong")):
        user, exchange = User(SHA_256, name, password), server()
        challenge = answer(exchange, b"n,," + user.bare)
        _, salt, iterations = read_server_first(challenge.message)
        assert (salt == b"salt") == (name == "ute") and iterations == 4096
        failures.append(failure(exchange, user.final(challenge.message)))
    assert failures == [("wrong username or password", None)] * 3


def test_a_user_that_does_not_exist_has_the_same_salt_each_time() -> None:
    salts = {read_server_first(answer(server(), b"n,,n=nobody,r=x").message)[1] for _ in range(2)}
    others = {read_server_first(answer(server(), b"n,,n=nobody2,r=x").message)[1]}
    assert len(salts) == 1 and salts != others


KAFKAS = rb"[0-9a-z]{20,26}"
"""What kafka-configs 4.3.1 drew: ti70jiaetj90qgpqp65qcfny0"""


def test_salts_that_are_made_up_look_like_those_that_tools_draw() -> None:
    """Anybody may ask for the salt of a name."""
    made_up = [read_server_first(answer(server(), b"n,,n=nobody%d,r=x" % one).message)[1] for one in range(100)]
    drawn = [salt_and_salted(SHA_256, "x", 1)[0] for _ in range(100)]
    first = [read_first_users("SCRAM-SHA-256=[name=ute,password=x]")[0].made(os.urandom).kept.salt for _ in range(3)]
    assert all(re.fullmatch(KAFKAS, salt) for salt in (*made_up, *drawn, *first))
    assert max(map(len, made_up)) == max(map(len, drawn)) == 26


class KnownPassword(MadeUpCredentials):
    """As if somebody had guessed what was made up."""

    def of(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        return credential(mechanism, salted_password(mechanism, "right", b"salt", 4096), b"salt", 4096)


def test_a_made_up_credential_lets_nobody_in() -> None:
    user = User(SHA_256, "nobody", "right")
    exchange = ScramExchange(SHA_256, lambda *key: None, KnownPassword(b""), b"nonce")
    challenge = answer(exchange, b"n,," + user.bare)
    assert failure(exchange, user.final(challenge.message)) == ("wrong username or password", None)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"", None),
        (b"n,,n=ute", None),
        (b"p=tls-unique,,n=ute,r=x", None),
        (b"n,,m=ext,n=ute,r=x", None),
        (b"n,,n=u=te,r=x", None),
        (b"n,,n=,r=x", None),
        (b"n,,n=ute,r=", None),
        (b"n,,n=ute,r=x,broken", None),
        (b"n,,n=\xff,r=x", None),
        (b"n,,n=u\0te,r=x", None),
        (b"n,b=ute,n=ute,r=x", None),
        (b"n,,n=ute,r=x,tokenauth=true", None),
        (b"n,a=other,n=ute,r=x", OTHER_AUTHORIZATION_ID),
    ],
)
def test_first_messages_that_scram_does_not_know(message: bytes, told: str | None) -> None:
    assert failure(server(), message)[1] == told


@pytest.mark.parametrize(
    "change",
    [
        (b"c=biws", b"c=eSws"),
        (b"r=clientnonce", b"r=clientnoncf"),
        (b",p=", b",p=AAAA"),
        (b",p=", b",q="),
        (b"c=biws,", b""),
        (b"c=biws", b"c=!"),
    ],
)
def test_final_messages_that_belong_to_no_exchange(change: tuple[bytes, bytes]) -> None:
    user, exchange = User(SHA_256, "ute", "right"), server()
    challenge = answer(exchange, b"n,," + user.bare)
    failure(exchange, user.final(challenge.message).replace(*change))


# ---------------------------------------------------------------------------------------------------- OAUTHBEARER


class OneToken:
    """Knows one token."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def check(self, token: str) -> Token:
        self.seen.append(token)
        if token != "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg":
            raise TokenRefused("not that one")
        return Token("ute", 5000)


RFC_7628 = (
    b"n,a=ute,\x01host=server.example.com\x01port=143\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg\x01\x01"
)


@pytest.mark.parametrize(
    "message",
    [
        RFC_7628,
        RFC_7628.replace(b"a=ute", b""),
        b"n,,\x01auth=bearer  vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg\x01\x01",
    ],
)
def test_a_token_that_is_believed(message: bytes) -> None:
    assert answer(OAuthBearerExchange(OneToken()), message) == Authenticated("ute", until_ms=5000)


def test_a_token_that_is_not_believed_is_answered_and_ends_the_exchange_with_the_next_message() -> None:
    """Kafka's server looks at any number of tokens in an exchange; one is enough to guess."""
    for second in (b"\x01", RFC_7628):
        tokens = OneToken()
        exchange = OAuthBearerExchange(tokens)
        assert answer(exchange, b"n,,\x01auth=Bearer other\x01\x01") == Challenge(INVALID_TOKEN.encode())
        assert failure(exchange, second) == ("not that one", INVALID_TOKEN)
        assert tokens.seen == ["other"]


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,a=,\x01auth=Bearer x\x01\x01",
        b"n,b=ute,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01auth=Bearer x\x01broken\x01\x01",
        b"n,,\x01auth=Bearer x\x01a=b\x01c=d",
        b"n,,\x01auth=Bearer x\x01\x01c=d",
        b"n,,\x01auth=Bearer x\x01a=b\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_messages_that_oauthbearer_does_not_know(message: bytes) -> None:
    tokens = OneToken()
    assert failure(OAuthBearerExchange(tokens), message)[1] is None
    assert tokens.seen == []


def test_a_token_of_somebody_else_than_the_authorization_id() -> None:
    reason, told = failure(OAuthBearerExchange(OneToken()), RFC_7628.replace(b"a=ute", b"a=u=2Cwe"))
    assert reason == "another authorization id"
    assert told is not None and "(u,we)" in told and "(ute)" in told


@pytest.mark.parametrize("drawn", [bytes(17), b"\xff" * 17, bytes(range(1, 18)), b"\x00" * 16 + b"\xff"])
def test_salts_are_numbers_of_130_bits_to_base_36(drawn: bytes) -> None:
    """As Kafka's tools draw theirs: one of another kind would say that nobody has the name."""
    salt = written_salt(drawn + b"more")
    assert int(salt, 36) == int.from_bytes(drawn) >> 6 and salt == salt.lower()
