"""Who is logged in: a secret in a cookie, and behind it the connections of that user.

Rule 1. A password is kept as long as the session, in memory: the broker is asked again with it after a lost connection.
Rule 2. What a form has to carry follows from the cookie and a key of this process: visitors who are nobody yet cost
        nothing.
Rule 3. Sessions are bounded: the one that was idle longest makes room.
"""

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from weakref import WeakValueDictionary

from tallystick.client.background import monotonic_s
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost, KafkaError, NotAuthenticated
from tallystick.client.security import Credentials
from tallystick.console.cluster import Cluster
from tallystick.console.options import Options

IDLE_S = 30 * 60.0
LASTS_S = 12 * 3600.0
MOST = 100
_ASKED_S = 15.0
"""So long a login waits for its turn and for the broker."""
_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""From the one that tells the broker least of the password."""


@dataclass(slots=True)
class Session:
    """One visitor who is let in."""

    user: str | None
    """None: nobody has to say."""
    cluster: Cluster
    began_s: float
    used_s: float
    has_faults: bool = False
    """Whether there is a page of faults for this visitor."""
    faults_asked_s: float = float("-inf")
    has_ended: bool = False

    def is_over(self, now_s: float) -> bool:
        """Whether it shows nothing any more, to open pages either."""
        if self.user is None:
            return self.has_ended
        return self.has_ended or now_s - self.used_s > IDLE_S or now_s - self.began_s > LASTS_S


class Sessions:
    """See the head of this file."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._key = secrets.token_bytes(32)
        self._by_token: dict[str, Session] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By address, as long as somebody there logs in."""
        now_s = monotonic_s()
        self._everybody = (
            None if options.asks_login else Session(None, Cluster(options.bootstrap, options.security()), now_s, now_s)
        )

    @staticmethod
    def fresh_token() -> str:
        return secrets.token_urlsafe(32)

    def form_token(self, token: str) -> str:
        """What forms that were shown to this visitor carry, and no page of somebody else's knows."""
        return hmac.new(self._key, token.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, token: str, given: str) -> bool:
        return hmac.compare_digest(self.form_token(token).encode(), given.encode())

    async def of(self, token: str) -> Session | None:
        """The session of a cookie; None: the visitor has to log in."""
        if self._everybody is not None:
            return self._everybody
        now_s = monotonic_s()
        await self._end([one for one, its in self._by_token.items() if its.is_over(now_s)])
        found = self._by_token.get(token)
        if found is not None:
            found.used_s = now_s
        return found

    async def log_in(self, user: str, password: str, address: str) -> str:
        """The token of a new session. Raises what the client raises, `NotAuthenticated` for a wrong password.

        One at a time from an address: whoever guesses passwords is as slow as the broker lets him be on one connection,
        and keeps nobody waiting who is elsewhere.
        """
        turn = self._turns.setdefault(address, asyncio.Lock())
        try:
            async with asyncio.timeout(_ASKED_S), turn:
                credentials = await self._let_in(user, password)
        except TimeoutError:
            raise ConnectionLost(f"no answer within {_ASKED_S:.0f} s") from None
        while len(self._by_token) >= MOST:
            await self._end([min(self._by_token, key=lambda one: self._by_token[one].used_s)])
        now_s, token = monotonic_s(), self.fresh_token()
        cluster = Cluster(self._options.bootstrap, self._options.security(credentials))
        self._by_token[token] = Session(user, cluster, now_s, now_s)
        return token

    async def _let_in(self, user: str, password: str) -> Credentials:
        wanted = self._options.settings.get("sasl.mechanism")
        refusal: Exception | None = None
        for mechanism in (wanted,) if wanted else _MECHANISMS:
            credentials = Credentials(mechanism, user, password)
            try:
                client = await Client.connect(
                    self._options.bootstrap,
                    client_id="tallystick-console",
                    security=self._options.security(credentials),
                )
            except (KafkaError, NotAuthenticated) as problem:
                refusal = problem
                continue
            await client.close()
            return credentials
        raise NotAuthenticated("The broker does not let this user in with this password.") from refusal

    async def log_out(self, token: str) -> None:
        await self._end([token])

    async def _end(self, tokens: list[str]) -> None:
        for token in tokens:
            found = self._by_token.pop(token, None)
            if found is not None:
                found.has_ended = True
                await found.cluster.close()

    async def close(self) -> None:
        await self._end(list(self._by_token))
        if self._everybody is not None:
            self._everybody.has_ended = True
            await self._everybody.cluster.close()
