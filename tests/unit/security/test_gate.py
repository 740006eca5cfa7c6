"""What a connection may do before it is known, and when its session has ended (KIP-368)."""

import asyncio
from collections.abc import Sequence

import pytest

from broker.security.sasl.exchange import Authenticated, Challenge, ExchangeFailed, Step
from broker.security.sasl.gate import (
    API_VERSIONS,
    LONGEST_MESSAGE_BYTES,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Gate,
    Handshake,
    Reply,
)
from protocol.errors import ProtocolError

METADATA, PRODUCE = 3, 0
ALL = (PRODUCE, METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE, 50)


class Script:
    """An exchange that says what was written for it."""

    def __init__(self, steps: Sequence[Step | ExchangeFailed]) -> None:
        self.steps = list(steps)

    async def answer(self, message: bytes) -> Step:
        step = self.steps.pop(0)
        if isinstance(step, ExchangeFailed):
            raise step
        return step


class Set:
    """A listener of two mechanisms, and a clock."""

    enabled = ("PLAIN", "OTHER")
    max_frame_bytes = 100
    patience_ms = 5000

    def __init__(self, *steps: Step | ExchangeFailed, longest_ms: int = 0) -> None:
        self.steps = steps or (Authenticated("ute"),)
        self.longest_ms = longest_ms
        self.now_ms = 1000
        self.gate = Gate(self, monotonic_ms=lambda: self.now_ms, wall_ms=lambda: self.now_ms + 1_000_000)
        self.opened = 0
        self.gate.opens = self.open

    def open(self) -> None:
        self.opened += 1

    def begin(self, mechanism: str) -> Script:
        return Script(self.steps)

    def longest_session_ms(self, mechanism: str) -> int:
        return self.longest_ms if mechanism == "PLAIN" else 0

    def pass_by(self, mechanism: str = "PLAIN") -> Reply:
        assert self.gate.handshake(mechanism, 1) is Handshake.BEGUN
        return self.say(b"")

    def say(self, message: bytes) -> Reply:
        self.gate.admit(SASL_AUTHENTICATE)
        return asyncio.run(self.gate.authenticate(message))


def admitted(make: "type[Set]", *before: str) -> list[int]:
    """Which requests pass, each asked of a gate of its own."""
    passed = []
    for key in ALL:
        gate = make().gate
        for what in before:
            gate.admit(SASL_HANDSHAKE if what == "handshake" else API_VERSIONS)
            if what == "handshake":
                gate.handshake("PLAIN", 1)
            else:
                gate.greeted()
        try:
            gate.admit(key)
            passed.append(key)
        except ProtocolError:
            with pytest.raises(ProtocolError):
                gate.admit(SASL_HANDSHAKE)  # and nothing is taken any more
    return passed


def test_who_is_not_known_may_say_little_and_in_order() -> None:
    assert admitted(Set) == [SASL_HANDSHAKE, API_VERSIONS]
    assert admitted(Set, "versions") == [SASL_HANDSHAKE]
    assert admitted(Set, "handshake") == [SASL_AUTHENTICATE]
    assert admitted(Set, "versions", "handshake") == [SASL_AUTHENTICATE]


def test_who_is_known_may_say_everything() -> None:
    listener = Set(Challenge(b"more?"), Authenticated("ute", b"welcome"))
    gate = listener.gate
    assert gate.handshake("PLAIN", 1) is Handshake.BEGUN
    assert listener.say(b"first") == Reply(b"more?")
    assert gate.is_needed and not listener.opened
    assert listener.say(b"second") == Reply(b"welcome")
    assert (gate.name, gate.mechanism, gate.is_known, gate.is_needed, listener.opened) == (
        "ute",
        "PLAIN",
        True,
        False,
        1,
    )
    for key in ALL:
        gate.admit(key)
    assert gate.handshake("PLAIN", 1) is Handshake.OUT_OF_TURN  # its session never ends
    gate.admit(PRODUCE)


def test_a_failure_shuts_the_gate_for_good() -> None:
    listener = Set(ExchangeFailed("wrong"))
    with pytest.raises(ExchangeFailed, match="wrong"):
        listener.pass_by()
    for key in ALL:
        with pytest.raises(ProtocolError):
            listener.gate.admit(key)
    other = Set()
    assert other.gate.handshake("GSSAPI", 1) is Handshake.UNKNOWN_MECHANISM
    with pytest.raises(ProtocolError):
        other.gate.admit(SASL_HANDSHAKE)


def test_a_message_longer_than_any_is_not_read() -> None:
    """Half a megabyte of JSON, or of extensions, keeps the loop for a tenth of a second."""
    for length, is_read in ((LONGEST_MESSAGE_BYTES, True), (LONGEST_MESSAGE_BYTES + 1, False)):
        one = Set()
        assert one.gate.handshake("PLAIN", 1) is Handshake.BEGUN
        if is_read:
            one.say(bytes(length))
        else:
            with pytest.raises(ExchangeFailed, match="longer than any"):
                one.say(bytes(length))
        assert one.gate.is_known is is_read


def test_messages_without_anything_around_them_follow_version_0() -> None:
    listener = Set(Challenge(b""), Authenticated("ute"))
    assert not listener.gate.expects_token
    listener.gate.handshake("PLAIN", 0)
    assert listener.gate.expects_token
    listener.say(b"")
    assert listener.gate.expects_token
    listener.say(b"")
    assert not listener.gate.expects_token


def test_only_so_much_time_is_given() -> None:
    listener = Set(Authenticated("ute"), longest_ms=60_000)
    listener.now_ms = 6000
    assert not listener.gate.is_overdue
    listener.now_ms = 6001
    assert listener.gate.is_overdue
    listener.pass_by()
    listener.now_ms = 50_000
    assert not listener.gate.is_overdue
    listener.gate.handshake("PLAIN", 1)
    listener.now_ms = 55_000
    assert not listener.gate.is_overdue
    listener.now_ms = 55_001
    assert listener.gate.is_overdue


@pytest.mark.parametrize(
    ("longest_ms", "until_ms", "session_ms"),
    [(0, None, 0), (3000, None, 3000), (0, 1_003_000, 2000), (5000, 1_003_000, 2000), (1000, 1_003_000, 1000)],
)
def test_a_session_lasts_as_long_as_settings_and_token_say(
    longest_ms: int, until_ms: int | None, session_ms: int
) -> None:
    listener = Set(Authenticated("ute", b"", until_ms), longest_ms=longest_ms)
    assert listener.pass_by() == Reply(b"", session_ms)
    listener.now_ms += session_ms
    listener.gate.admit(PRODUCE)
    listener.now_ms += 1
    if session_ms:
        with pytest.raises(ProtocolError, match="session has ended"):
            listener.gate.admit(PRODUCE)
    else:
        listener.gate.admit(PRODUCE)


def test_a_session_of_a_token_that_has_just_ended_ends_at_once() -> None:
    """Clocks may be apart, so it was believed."""
    listener = Set(Authenticated("ute", until_ms=1_000_900))
    assert listener.pass_by() == Reply(b"", 0)
    listener.gate.admit(METADATA)
    listener.now_ms += 1
    with pytest.raises(ProtocolError, match="has ended"):
        listener.gate.admit(METADATA)


def test_a_session_is_begun_anew_before_its_end_and_after_it() -> None:
    listener = Set(longest_ms=3000)
    assert listener.pass_by() == Reply(b"", 3000)
    listener.now_ms += 2000
    listener.gate.admit(SASL_HANDSHAKE)
    assert listener.pass_by() == Reply(b"", 3000)
    listener.now_ms += 2900
    listener.gate.admit(PRODUCE)
    listener.now_ms += 1000
    with pytest.raises(ProtocolError):
        listener.gate.admit(PRODUCE)
    listener.gate.admit(SASL_HANDSHAKE)
    assert listener.pass_by() == Reply(b"", 3000)
    listener.gate.admit(PRODUCE)
    assert listener.opened == 1


def test_sessions_begin_once_a_second_at_most() -> None:
    listener = Set(longest_ms=100)
    listener.pass_by()
    listener.now_ms += 10
    assert listener.pass_by() == Reply(b"", 100)
    listener.now_ms += 50
    listener.gate.admit(SASL_HANDSHAKE)
    assert listener.gate.handshake("PLAIN", 1) is Handshake.OUT_OF_TURN
    listener.gate.admit(PRODUCE)  # the session goes on
    listener.now_ms += 51
    with pytest.raises(ProtocolError):
        listener.gate.admit(SASL_HANDSHAKE)
    listener.now_ms += 899
    listener.gate.admit(SASL_HANDSHAKE)


def test_while_a_session_is_begun_anew_nothing_else_passes() -> None:
    listener = Set(longest_ms=3000)
    listener.pass_by()
    listener.gate.handshake("PLAIN", 1)
    with pytest.raises(ProtocolError):
        listener.gate.admit(PRODUCE)


def test_a_session_is_begun_anew_by_the_same_principal_and_mechanism() -> None:
    listener = Set(longest_ms=3000)
    listener.pass_by()
    listener.steps = (Authenticated("uwe"),)
    listener.gate.handshake("PLAIN", 1)
    with pytest.raises(ExchangeFailed) as failed:
        listener.say(b"")
    assert failed.value.told == "Cannot change principals during re-authentication from User.ute: User.uwe"
    assert (listener.gate.name, listener.gate.what) == ("ute", "re-authentication")
    other = Set(longest_ms=3000)
    other.pass_by()
    assert other.gate.handshake("OTHER", 1) is Handshake.BEGUN
    with pytest.raises(ExchangeFailed, match="another mechanism"):
        other.say(b"")
