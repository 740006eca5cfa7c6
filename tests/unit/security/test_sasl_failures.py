"""What is counted and told of those who fail to say who they are."""

from types import SimpleNamespace

import pytest

from broker.api.services import Services
from protocol.errors import ErrorCode
from tests.unit.broker.test_log_writer import Rig
from tests.unit.security.test_sasl_connections import WRONG, Caller, story


def test_a_failure_is_counted_before_its_answer_is_kept_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever watches the counter sees the attack, not what is left of it later."""
    seen: list[tuple[float, dict[str, int]]] = []

    async def tell(node: Services) -> None:
        async def keep_back(seconds: float) -> None:
            seen.append((seconds, dict(node.sasl["OUTSIDE"].failures)))

        monkeypatch.setattr("broker.api.handlers.identity.sasl.asyncio", SimpleNamespace(sleep=keep_back))
        caller = Caller(node)
        await caller.handshake()
        assert (await caller.say(WRONG)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    story(tell, **{"connection.failed.authentication.delay.ms": "1500"})
    assert seen == [(1.5, {"PLAIN, wrong username or password": 1})]


def test_who_goes_on_guessing_is_counted() -> None:
    rig, other = Rig("sasl"), Rig("connection")

    async def tell(node: Services) -> None:
        for port in range(50):
            caller = Caller(node, port)
            await caller.handshake()
            assert (await caller.say(b"\0ute\0%d" % port)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    try:
        story(tell)
        first, again = rig.lines()
        assert other.lines() == [], "once is enough"
    finally:
        rig.close()
        other.close()
    told = 'peer=10.0.0.1:0 listener=OUTSIDE reason="PLAIN, wrong username or password" so_far=1'
    assert first == f"WARNING sasl authentication failed {told}"
    assert again == f"{first} repeated=49"
