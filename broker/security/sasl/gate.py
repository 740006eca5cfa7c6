"""What a connection of a SASL listener may do before it is known, and when its session has ended (KIP-368).

    NEW ── ApiVersions ──▶ GREETED ── SaslHandshake ──▶ EXCHANGE ── SaslAuthenticate, … ──▶ KNOWN
     └───────────────── SaslHandshake ────────────────────▲  ▲                                 │
                                                          │  └────── SaslHandshake ◀───────────┘ where sessions end
    anything else, or a failure: SHUT, and the connection is closed

Rule 1. Before it is known, a connection sends small frames, has one exchange at a time, and is given so much time.
Rule 2. A session that ends is begun anew by the same principal with the same mechanism, not more than once a second.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from broker.security.sasl.exchange import Authenticated, Exchange, ExchangeFailed
from protocol.errors import ProtocolError

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
LEAST_BETWEEN_SESSIONS_MS = 1000
LONGEST_MESSAGE_BYTES = 64 << 10
"""Of a mechanism. A frame may be longer, as in Kafka; half a megabyte of JSON or of extensions, from one who is not
known, would keep the loop for a tenth of a second. Tokens take some KB."""


class Mechanisms(Protocol):
    """What its listener has set up."""

    @property
    def enabled(self) -> tuple[str, ...]: ...

    @property
    def max_frame_bytes(self) -> int:
        """Of one who is not known yet."""

    @property
    def patience_ms(self) -> int:
        """How long an exchange may take."""

    def begin(self, mechanism: str) -> Exchange:
        """An exchange of one that is enabled."""

    def longest_session_ms(self, mechanism: str) -> int:
        """`connections.max.reauth.ms`; 0: for good."""


class State(Enum):
    """See the picture in the head of this file."""

    NEW = auto()
    GREETED = auto()
    EXCHANGE = auto()
    KNOWN = auto()
    SHUT = auto()


ADMITTED: dict[State, frozenset[int]] = {
    State.NEW: frozenset((API_VERSIONS, SASL_HANDSHAKE)),
    State.GREETED: frozenset((SASL_HANDSHAKE,)),
    State.EXCHANGE: frozenset((SASL_AUTHENTICATE,)),
    State.SHUT: frozenset(),
}


class Handshake(Enum):
    """What becomes of a SaslHandshake."""

    BEGUN = auto()
    UNKNOWN_MECHANISM = auto()
    OUT_OF_TURN = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a client is sent in an exchange. `session_ms`: how long it is known now; 0: for good, or not yet."""

    message: bytes
    session_ms: int = 0


class Gate:
    """Of one connection."""

    def __init__(self, mechanisms: Mechanisms, *, monotonic_ms: Callable[[], int], wall_ms: Callable[[], int]) -> None:
        self._mechanisms = mechanisms
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._state = State.NEW
        self._began_ms = monotonic_ms()
        self._exchange: Exchange | None = None
        self._bare_tokens = False
        self._mechanism = ""
        self._name: str | None = None
        self._ends_ms: int | None = None
        self._again_ms: int | None = None
        self.opens: Callable[[], None] | None = None
        """Called once, when the connection is known."""

    @property
    def name(self) -> str:
        """Whom it is known as."""
        assert self._name is not None
        return self._name

    @property
    def mechanism(self) -> str:
        """Of the latest exchange."""
        return self._mechanism

    @property
    def what(self) -> str:
        """The word for what goes on, as Kafka has it."""
        return "authentication" if self._name is None else "re-authentication"

    @property
    def is_known(self) -> bool:
        return self._state is State.KNOWN

    @property
    def is_needed(self) -> bool:
        """Whether it still has something to watch over."""
        return self._state is not State.KNOWN or self._ends_ms is not None

    @property
    def max_frame_bytes(self) -> int:
        return self._mechanisms.max_frame_bytes

    @property
    def enabled(self) -> tuple[str, ...]:
        return self._mechanisms.enabled

    @property
    def expects_token(self) -> bool:
        """The next frame is a message of the mechanism without anything around it, as after SaslHandshake 0."""
        return self._bare_tokens and self._state is State.EXCHANGE

    @property
    def is_overdue(self) -> bool:
        """Whether it took longer to be known than it may."""
        waits = self._state is not State.KNOWN
        return waits and self._monotonic_ms() - self._began_ms > self._mechanisms.patience_ms

    def admit(self, api_key: int) -> None:
        """Raises `ProtocolError` for a request that may not be sent now."""
        if self._state is not State.KNOWN:
            if api_key not in ADMITTED[self._state]:
                self._state = State.SHUT
                raise ProtocolError(f"a request with api key {api_key} before it is authenticated")
        elif self._has_ended and not (api_key == SASL_HANDSHAKE and self._may_begin_again):
            raise ProtocolError("its session has ended, and it was not authenticated again in time")

    @property
    def _has_ended(self) -> bool:
        return self._ends_ms is not None and self._monotonic_ms() > self._ends_ms

    @property
    def _may_begin_again(self) -> bool:
        return self._again_ms is None or self._monotonic_ms() - self._again_ms >= LEAST_BETWEEN_SESSIONS_MS

    def greeted(self) -> None:
        """Its ApiVersions was answered; it asks once."""
        if self._state is State.NEW:
            self._state = State.GREETED

    def handshake(self, mechanism: str, version: int) -> Handshake:
        """A SaslHandshake that was admitted."""
        again = self._state is State.KNOWN
        if again:
            if self._ends_ms is None or not self._may_begin_again:
                return Handshake.OUT_OF_TURN
            self._again_ms = self._began_ms = self._monotonic_ms()
        if mechanism not in self._mechanisms.enabled:
            self._state = State.SHUT
            return Handshake.UNKNOWN_MECHANISM
        # Another mechanism than before: Kafka, too, says so in the next step.
        self._exchange = None if again and mechanism != self._mechanism else self._mechanisms.begin(mechanism)
        if not again:
            self._mechanism = mechanism
        self._bare_tokens = version == 0
        self._state = State.EXCHANGE
        return Handshake.BEGUN

    async def authenticate(self, message: bytes) -> Reply:
        """A message of the mechanism, in an exchange. Raises `ExchangeFailed`, and the connection is to be closed."""
        assert self._state is State.EXCHANGE
        self._state = State.SHUT  # if this fails, in whatever way
        if self._exchange is None:
            told = "SASL mechanism requested by client is not supported for re-authentication of mechanism"
            told = f"{told} '{self._mechanism}'"
            raise ExchangeFailed("another mechanism than before", told)
        if len(message) > LONGEST_MESSAGE_BYTES:
            raise ExchangeFailed("a message longer than any")
        step = await self._exchange.answer(message)
        if not isinstance(step, Authenticated):
            self._state = State.EXCHANGE
            return Reply(step.message)
        if self._name not in (None, step.name):
            told = f"Cannot change principals during re-authentication from User.{self._name}: User.{step.name}"
            raise ExchangeFailed("another principal than before", told)
        self._exchange, self._name, self._state = None, step.name, State.KNOWN
        session_ms = self._begin_session(step)
        if self.opens is not None:
            self.opens()
            self.opens = None
        return Reply(step.message, session_ms)

    def _begin_session(self, step: Authenticated) -> int:
        longest_ms = self._mechanisms.longest_session_ms(self._mechanism)
        ends = [longest_ms] if longest_ms > 0 else []
        if step.until_ms is not None:
            ends.append(max(0, step.until_ms - self._wall_ms()))
        self._ends_ms = self._monotonic_ms() + min(ends) if ends else None
        return min(ends, default=0)
