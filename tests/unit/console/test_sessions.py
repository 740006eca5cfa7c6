"""Who waits for whom at the door."""

import asyncio

import pytest

from tallystick.client.security import Credentials
from tallystick.console.options import Options
from tallystick.console.sessions import Sessions


def test_whoever_guesses_passwords_keeps_nobody_waiting_who_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def let_in(sessions: Sessions, user: str, password: str) -> Credentials:
        asked.append(user)
        if user == "guessed":
            await asyncio.Event().wait()
        return Credentials("PLAIN", user, password)

    async def log_in_beside_a_guess() -> None:
        sessions = Sessions(Options("127.0.0.1:1", "127.0.0.1", 0, {"security.protocol": "SASL_PLAINTEXT"}))
        guesses = [asyncio.create_task(sessions.log_in("guessed", "x", "192.0.2.1")) for _ in range(3)]
        await asyncio.sleep(0)
        token = await sessions.log_in("alice", "y", "192.0.2.2")
        found = await sessions.of(token)
        assert found is not None and found.user == "alice"
        assert asked == ["guessed", "alice"], "one at a time from an address"
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
        await sessions.close()

    monkeypatch.setattr(Sessions, "_let_in", let_in)
    asyncio.run(asyncio.wait_for(log_in_beside_a_guess(), 30))
