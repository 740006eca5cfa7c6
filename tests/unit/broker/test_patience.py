"""What is said of a store that cannot be reached."""

import asyncio
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.process.log_writer import Repeats
from broker.shared import patience as patience_module
from broker.shared.bringing import LogSource
from broker.shared.patience import Patience
from broker.shared.reading.ahead import ReadingAhead
from storage.shared.read_memory import ReadMemory
from storage.shared.store import StoreUnreachable


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(one.getMessage(), vars(one)["fields"].get("reason", "")) for one in caplog.records]


def waited(reasons: Iterator[str], *, is_seen: bool = False) -> str:
    async def ask() -> str:
        for reason in reasons:
            raise StoreUnreachable(reason)
        return "reached"

    return asyncio.run(Patience("somebody waits", is_seen=is_seen).until_reached(ask))


def test_it_is_said_once_and_again_where_the_reason_becomes_another(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience_module, "FIRST_PAUSE_S", 0.0)
    with caplog.at_level(logging.INFO):
        assert waited(iter(["does not answer"] * 3 + ["refuses these credentials"] * 2)) == "reached"
    assert said(caplog) == [
        ("the store cannot be reached", "does not answer"),
        ("the store cannot be reached", "refuses these credentials"),
        ("the store is reached again", ""),
    ]


def test_nothing_is_said_of_one_that_answers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert waited(iter(()), is_seen=True) == "reached"
    assert not caplog.records


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_start_says_that_nobody_has_answered_yet(
    is_seen: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience_module, "SLOW_S", 0.0)

    async def story() -> None:
        answered = asyncio.Event()

        async def ask() -> None:
            await answered.wait()

        waiting = asyncio.create_task(Patience("the start waits", is_seen=is_seen).until_reached(ask))
        for _ in range(5):
            await asyncio.sleep(0)
        assert said(caplog) == ([("the store cannot be reached", "it has not answered yet")] if is_seen else [])
        answered.set()
        await waiting

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())


def test_readers_who_ask_again_and_again_are_one_line_for_a_log(caplog: pytest.LogCaptureFixture) -> None:
    """However far they have read, and whatever the store says of it."""

    class Away:
        keeps_apart = False

        def __init__(self) -> None:
            self.asked = 0

        async def runs(self, *given: object) -> list[object]:
            self.asked += 1
            raise StoreUnreachable(f"no answer to request {self.asked}")

    async def story() -> None:
        for name in ("t-0", "t-1"):
            log = SimpleNamespace(name=name, owned=SimpleNamespace(log_id=1, owner_epoch=0), end_offset=3, arrived=None)
            log.latest_epoch = lambda: 0
            node = ReadingAhead(cast(Any, Away()), ReadMemory(1, 1), 0, asyncio.ensure_future, cast(Any, None))
            source = LogSource(cast(Any, log), node)
            for offset in range(3):
                with pytest.raises(OSError, match="no answer"):
                    await source.bring(offset)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    repeats = Repeats()
    written = [vars(record)["fields"] for record in caplog.records if repeats.admits(record, 0.0)]
    assert len(caplog.records) == 6
    assert [(one["log"], str(one["offset"]), str(one["reason"])) for one in written] == [
        ("t-0", "0", "no answer to request 1"),
        ("t-1", "0", "no answer to request 1"),
    ]
