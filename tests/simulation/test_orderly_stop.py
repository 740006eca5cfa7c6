"""An orderly stop: one that fails is reported as such, and the run goes on to its end; what is asked meanwhile."""

import asyncio

import pytest

from broker.api.services import Services
from broker.network.server import Server
from broker.node import Node
from tests.harness.network import NetworkFaults
from tests.simulation.plan import draw
from tests.simulation.shape import ClientPlan, FaultPlan, Plan
from tests.simulation.simulation import run

STOP_S = 0.2


def _plan(client_from_s: float) -> Plan:
    """Something to sync, a producer that comes, calm weather, and one orderly stop."""
    return Plan(
        seed=1,
        duration_s=0.5,
        segment_bytes=6000,
        sync_s=0.02,
        network=NetworkFaults(delay_s=0.005),
        final="",
        clients=(
            ClientPlan("plain", "early", 2, 0.0, (("topic", "a"), ("acks", 1), ("in_flight", 1))),
            ClientPlan("idempotent", "late", 1, client_from_s),
        ),
        faults=(FaultPlan("stop", STOP_S, down_s=0.01),),
    )


def test_a_failed_stop_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends of it, as a real one does. One that lived on without its port would be retried for ever, and the
    run would be called stuck."""
    stop = Node.stop
    failed: list[Node] = []

    async def fails_once(node: Node) -> None:
        if not failed:
            failed.append(node)
            raise AssertionError("not today")
        await stop(node)

    monkeypatch.setattr(Node, "stop", fails_once)
    (violation,) = run(_plan(0.0)).violations
    assert violation.startswith("an orderly stop failed:") and "not today" in violation


def test_cancelled_work_ends_before_the_logs_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may write into them any more."""
    stop, close_logs = Node.stop, Node._close_logs
    ended: list[bool] = []
    work: list[asyncio.Task[None]] = []

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)

    async def stops(node: Node) -> None:
        work.append(node.own(slow_to_end()))
        await asyncio.sleep(0)  # it is at work
        await stop(node)

    async def closes(node: Node, services: Services) -> None:
        ended.append(work[-1].done())
        await close_logs(node, services)

    monkeypatch.setattr(Node, "stop", stops)
    monkeypatch.setattr(Node, "_close_logs", closes)
    assert run(_plan(0.0)).violations == []
    assert ended and all(ended)


def _close_the_port_only(server: Server) -> None:
    for one in server._servers:
        one.close()


def test_a_connection_that_a_stopping_broker_takes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was on its way when the port was closed: what it writes goes into logs that are being closed."""
    plan = _plan(STOP_S - 0.0045)
    assert run(plan).violations == []
    monkeypatch.setattr(Server, "stop_accepting", _close_the_port_only)
    assert any("one flush at a time" in violation for violation in run(plan).violations)


@pytest.mark.parametrize("seed", [72001433, 74014928], ids=["started again", "in its first life"])
def test_a_fetch_that_is_asked_of_a_broker_that_is_stopping(seed: int) -> None:
    """It is answered at once, with nothing; the runs that showed that the reader has to know."""
    assert run(draw(seed)).violations == []
