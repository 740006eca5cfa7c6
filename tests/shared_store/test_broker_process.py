"""`tallystick serve --store` as a process: how it ends while its database is away, and what it says of backups."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tallystick.process import PACKAGES, BrokerProcess
from tests.harness.http import ask
from tests.harness.proxy import CuttingProxy, free_port
from tests.shared_store.postgresql_server import PostgresqlServer, why_not

PATIENCE_S = 60.0
HELD_UP = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%commit_object(%'"


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(0.01)


def test_a_second_signal_ends_a_broker_whose_database_is_away(tmp_path: Path) -> None:
    """It would wait for it: there is something to be committed at the end. Nothing of that was acknowledged."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    server = PostgresqlServer()
    broker = BrokerProcess(tmp_path, options=["--store", server.url("ends")])
    try:
        asyncio.run(server.start())
        broker.start()
        server.stop(signal.SIGKILL)
        os.kill(broker.pid, signal.SIGTERM)
        until(lambda: "main stopping" in broker.log.read_text(), "the first signal is heard")
        os.kill(broker.pid, signal.SIGTERM)
        until(lambda: not broker.running, "the second one ends it")
        asyncio.run(server.start())
        broker.start()
        assert broker.stop() == 0
    finally:
        broker.close()
        server.close()


def test_a_broker_that_ends_does_not_ask_for_its_commit_to_be_cancelled(
    postgresql: PostgresqlServer, schema: str, tmp_path: Path
) -> None:
    """PostgreSQL would say that it was made, though the standby may not have it. Who asks for that, connects anew."""
    connected: list[int] = []

    def target() -> int:
        connected.append(postgresql.port)
        return postgresql.port

    way = CuttingProxy(free_port(), target).start()
    url = f"postgresql://postgres@{way.bootstrap}/postgres?schema={schema}&sslmode=disable"
    broker = BrokerProcess(tmp_path, options=["--store", url])

    async def story() -> None:
        holding = await postgresql.connect(schema)
        try:
            await holding.transaction().start()
            await holding.fetch("SELECT FROM log FOR UPDATE")
            os.kill(broker.pid, signal.SIGTERM)
            await postgresql.wait_until(HELD_UP, schema=schema)
            before = len(connected)
            os.kill(broker.pid, signal.SIGTERM)
            until(lambda: not broker.running, "the second signal ends it")
            await (await asyncpg.connect(url.replace(f"schema={schema}&", ""))).close()
            assert len(connected) == before + 1
        finally:
            holding.terminate()

    try:
        broker.start()
        asyncio.run(story())
    finally:
        broker.close()
        way.stop()


def test_a_broker_that_hears_nothing_of_its_database_is_not_ready(tmp_path: Path) -> None:
    """Another may serve the store by then, and clients had better be sent there."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    server = PostgresqlServer()
    timeouts = ("broker.session.timeout.ms=1000", "broker.heartbeat.interval.ms=100")
    settings = [word for setting in timeouts for word in ("--set", setting)]
    broker = BrokerProcess(tmp_path, options=["--store", server.url("ready"), *settings])
    broker.has_http = True
    try:
        asyncio.run(server.start())
        broker.start()
        until(lambda: readiness(broker) == (200, []), "it is ready")
        server.pause()
        until(lambda: readiness(broker)[0] == 503, "it is not ready any more")
        assert readiness(broker)[1][0].startswith("the store has not answered for ")
        server.resume()
        until(lambda: readiness(broker) == (200, []), "it is ready again")
    finally:
        broker.close()
        server.close()


def readiness(broker: BrokerProcess) -> tuple[int, list[str]]:
    answer = ask(f"{broker.http_url}/health/ready")
    return answer.status, answer.said["reasons"]


def test_a_backup_of_a_store_is_refused_by_its_name(postgresql: PostgresqlServer, schema: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, options=["--store", postgresql.url(schema)])
    broker.has_http = True
    words = ["-m", "tallystick", "backup", "create", str(tmp_path / "kept"), "--http"]
    try:
        broker.start()
        command = [sys.executable, *words, broker.http_url]
        done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True, check=False)
    finally:
        broker.close()
    assert done.returncode == 1
    assert f"keeps everything in postgresql://{postgresql.host}/postgres" in done.stderr
