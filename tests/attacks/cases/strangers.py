"""Attacks on a listener with SASL by clients that nobody knows, and by one that is known."""

from random import Random
from struct import pack

from protocol.errors import ErrorCode
from protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.attacks import wire
from tests.attacks.cases.fuzzing import fuzzed
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.attacks.wire import Hangup, Link
from tests.harness.framing import request_frame
from tests.harness.secure_broker import plain_users

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LARGEST = 64 << 10
GUARDED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.server.max.receive.size": str(LARGEST),
    "listener.name.secure.plain.sasl.jaas.config": plain_users({"ute": "secret"}),
    "listener.name.secure.oauthbearer.sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
    "connection.failed.authentication.delay.ms": "10",
    "connections.max.reauth.ms": "600000",
}
RIGHT = b"\0ute\0secret"
MESSAGES = {
    "PLAIN": (RIGHT, b"\0ute\0wrong", b"ute\0ute\0secret"),
    "SCRAM-SHA-256": (
        b"n,,n=ute,r=abcdef",
        b"c=biws,r=abcdef,p=" + b"A" * 43 + b"=",
        b"n,a=ute,n=ute,r=x,tokenauth=true",
    ),
    "SCRAM-SHA-512": (b"n,,n=ute,r=abcdef", b"c=biws,r=abcdef,p=" + b"A" * 86 + b"==", b"y,,n=u=2Ct=3De,r=x"),
    "OAUTHBEARER": (
        b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1dGUiLCJleHAiOjk5OTk5OTk5OTl9.\x01\x01",
        b"n,,\x01auth=Bearer e30.e30.\x01\x01",
        b"\x01",
    ),
}
"""What clients of a mechanism say, to begin with."""


def known(link: Link) -> None:
    """Authenticate as one who may."""
    assert link.request(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert link.request(SaslAuthenticateRequest(auth_bytes=RIGHT), 2).error_code == 0


@case(
    short={"connections": 200},
    long={"connections": 5_000},
    settings=GUARDED | {"tallystick.authentication.timeout.ms": "1500"},
    peak_mb=60,
    on_kafka=False,
)
def strangers_that_wait(trial: Trial, *, connections: int) -> None:
    """Clients of a SASL listener that say who they are half-way, or not at all, and stay."""
    links = []
    for number in range(connections):
        link = trial.connect(guarded=True)
        if number % 4 >= 1:
            link.request(wire.versions(), 0)
        if number % 4 >= 2:
            link.request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        if number % 4 == 3:
            link.request(SaslAuthenticateRequest(auth_bytes=b"n,,n=ute,r=abc"), 1)
            link.send(pack(">i", LARGEST) + bytes(LARGEST // 2))
        links.append(link)
    for link in links:
        trial.require(link.ended(), "somebody was let wait")


@case(short={"tries": 200}, long={"tries": 20_000}, settings=GUARDED, on_kafka=False)
def guessed_passwords(trial: Trial, *, tries: int) -> None:
    """One password after the other, of users that exist and of others; and a storm of handshakes that end at once."""
    told = set()
    for number in range(tries):
        link = trial.connect(guarded=True)
        link.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        name = "ute" if number % 2 else f"u{number}"
        answer = link.request(SaslAuthenticateRequest(auth_bytes=f"\0{name}\0{number}".encode()), 1)
        told.add((answer.error_code, answer.error_message, answer.auth_bytes))
        trial.require(link.ended(), "a connection went on after its failure")
        trial.hang_up()
    trial.require(len(told) == 1, f"failures are told apart: {told}")
    trial.require(told.pop()[0] == ErrorCode.SASL_AUTHENTICATION_FAILED, "a guess was right")
    known(trial.connect(guarded=True))


@case(
    short={"first": 0, "seeds": 300}, long={"first": 300, "seeds": 20_000}, settings=GUARDED, kept_mb=96, on_kafka=False
)
def fuzzed_exchanges(trial: Trial, *, first: int, seeds: int) -> None:
    """Messages of SASL mechanisms with something wrong in them, with and without SaslAuthenticate around them."""
    for seed in range(first, first + seeds):
        draw = Random(f"{seed}-sasl")
        link = trial.connect(guarded=True)
        mechanism = draw.choice((*MECHANISMS, *MECHANISMS, "GSSAPI", "x" * 30_000))
        version = draw.randrange(2)
        try:
            link.request(SaslHandshakeRequest(mechanism=mechanism), version)
            for _ in range(draw.choice((1, 2, 2, 5))):
                message = spoilt(draw.choice(MESSAGES.get(mechanism, (b"x",))), draw)
                if version:
                    link.request(SaslAuthenticateRequest(auth_bytes=message), draw.randrange(3))
                else:
                    link.send(wire.framed(message))
                    link.frame()
        except Hangup:
            pass
        trial.hang_up()


def spoilt(message: bytes, draw: Random) -> bytes:
    """With a bit turned, cut, doubled, or very long; or as it is."""
    at = draw.randrange(len(message))
    kind = draw.randrange(7)
    if kind == 0:
        return message[:at] + bytes((message[at] ^ 1 << draw.randrange(8),)) + message[at + 1 :]
    if kind == 1:
        return message[: max(at, 1)]
    if kind == 2:
        return message[:at] + message[at:] * draw.choice((2, 100))
    if kind == 3:
        return (
            message[:at] + draw.choice((b"\0", b",", b"=", b"\xff", b"\x01")) * draw.choice((1, 50_000)) + message[at:]
        )
    if kind == 4:
        return draw.randbytes(draw.choice((1, 30, LARGEST - 100, LARGEST + 1)))
    return message


@case(
    short={"first": 0, "seeds": 250},
    long={"first": 20_000, "seeds": 10_000},
    settings=GUARDED,
    kept_mb=96,
    on_kafka=False,
)
def fuzz_before_authentication(trial: Trial, *, first: int, seeds: int) -> None:
    """The fuzz of every API on a SASL listener, from clients that say nothing of themselves."""
    fuzzed(trial, first, seeds, trial.guarded)


@case(
    short={"first": 0, "seeds": 250},
    long={"first": 30_000, "seeds": 10_000},
    settings=GUARDED,
    kept_mb=96,
    on_kafka=False,
)
def fuzz_after_authentication(trial: Trial, *, first: int, seeds: int) -> None:
    """The same from a client that is known, and in the middle of its next authentication."""

    def greet(link: Link) -> None:
        known(link)
        if first % 2:
            link.send(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1))
            link.frame()

    for seed in range(first, first + seeds, 50):
        first = seed // 50
        fuzzed(trial, seed, min(50, seeds), trial.guarded, greet)
