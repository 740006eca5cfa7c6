"""The loop of a simulated process: one that dies leaves nothing that Python would complain of."""

import gc
import sys
from typing import Any

import pytest

from tests.harness.loop import Scheduler, new_process


def test_what_a_dead_process_never_began_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    async def work() -> None:
        raise AssertionError("a dead process works")

    scheduler = Scheduler()
    loop = new_process(scheduler, "broker")
    task = loop.create_task(work())
    loop.die()
    scheduler.ready.clear()
    del task, loop, scheduler
    gc.collect()
    assert not complaints
