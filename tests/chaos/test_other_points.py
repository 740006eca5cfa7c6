"""A real process dies at every fault point beside transactions: starting, stopping, housekeeping, groups, the disk.

A committed transaction and an open one lie in its folder meanwhile; neither may notice.
"""

import asyncio
import contextlib
import copy
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.faults.points import POINTS
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost
from tests.chaos.chores import BUSY, Chores, until_it_dies
from tests.chaos.forked_broker import ForkedBroker
from tests.chaos.story import Story
from tests.chaos.test_fault_points import BEFORE, DECIDED, SETTINGS, faulty, last_look, prepare
from tests.simulation.history import History

FIRST_START = [name for name in POINTS if name.startswith("producer-ids.")]
"""Passed once in a thousand producer ids: so in a folder that was never used."""
EXPIRY = {
    "transactional__id__expiration__ms": "1",
    "transaction__remove__expired__transaction__cleanup__interval__ms": "10",
}
OTHER = [
    *(name for name in POINTS if name not in (*BEFORE, *(one.partition("@")[0] for one in DECIDED))),
    *(
        f"log.{moment}@{nth}"
        for moment in ("before-append", "after-append", "before-sync", "after-sync")
        for nth in (2, 5, 9)
    ),
]


class Folder:
    """What was there before: a committed transaction and an open one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history = History()
        self.committed = Story(self.history, "committed", transaction_version=2, comes_back=True)
        self.open = Story(self.history, "open", transaction_version=0, comes_back=True, offset=2)

    def fill(self) -> None:
        broker = ForkedBroker(self.path, SETTINGS)
        try:
            broker.start()
            asyncio.run(prepare(broker))
            assert asyncio.run(self.committed.run(broker.bootstrap))
            assert asyncio.run(self.open.run(broker.bootstrap, until=4))
        finally:
            broker.kill()

    def copy(self, path: Path) -> "Folder":
        copied = copy.deepcopy(self)
        copied.path = path
        shutil.copytree(self.path / "data", path / "data")
        return copied

    def broker(self, settings: Mapping[str, str] = SETTINGS) -> ForkedBroker:
        return ForkedBroker(self.path, settings)

    def check(self, broker: ForkedBroker, chores: Chores) -> None:
        broker.start()
        assert asyncio.run(self.open.run(broker.bootstrap)), broker.log_end()
        assert asyncio.run(last_look(broker, self.history)) == []
        assert self.committed.is_visible and self.open.is_visible
        assert "belongs to nobody" not in broker.log.read_text()
        asyncio.run(promises_kept(broker, chores))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("filled"))
    folder.fill()
    return folder


@pytest.fixture
def folder(filled: Folder, tmp_path: Path) -> Folder:
    return filled.copy(tmp_path)


async def promises_kept(broker: ForkedBroker, chores: Chores) -> None:
    client = await Client.connect(broker.bootstrap)
    try:
        await chores.promises_kept(client)
    finally:
        await client.close()


async def do(broker: ForkedBroker, chores: Chores) -> None:
    """The chores, then waiting: one of them is deadly."""
    with contextlib.suppress(ConnectionLost, ConnectionError):
        client = await Client.connect(broker.bootstrap)
        try:
            await chores.run(client)
            await until_it_dies(client)
        finally:
            await client.close()


@pytest.mark.parametrize(
    "point", [name for name in OTHER if name not in FIRST_START and "shutdown" not in name and "aborted" not in name]
)
def test_a_crash_beside_a_transaction(point: str, folder: Folder) -> None:
    broker, chores = folder.broker(SETTINGS | BUSY), Chores()
    try:
        if broker.start(faulty(point), **(EXPIRY if point.startswith("expire.") else {})):
            asyncio.run(do(broker, chores))
        assert broker.wait_until_dead() == -9
        assert broker.struck == [point.partition("@")[0]]
        folder.check(broker, chores)
    finally:
        broker.kill()


@pytest.mark.parametrize("point", FIRST_START)
def test_a_crash_of_the_very_first_start(point: str, tmp_path: Path) -> None:
    """No producer id is handed out twice, whatever became of the first block (I01)."""
    broker = ForkedBroker(tmp_path, SETTINGS)
    folder = Folder(tmp_path)
    try:
        broker.start(faulty(point))
        assert broker.wait_until_dead() == -9
        folder.fill()
        folder.check(broker, Chores())
        committed, left_open = folder.committed.transaction, folder.open.transaction
        assert committed is not None and left_open is not None
        assert committed.producer_id != left_open.producer_id
    finally:
        broker.kill()


@pytest.mark.parametrize(
    "point",
    [
        "snapshot.before-write",
        "snapshot.after-write",
        "checkpoint.before-write",
        "shutdown.before-mark",
        "shutdown.after-mark",
    ],
)
def test_a_crash_of_an_orderly_end(point: str, folder: Folder) -> None:
    broker = folder.broker()
    try:
        broker.start(faulty(point))
        broker.wait_until_logs_are_open()
        assert broker.stop() == -9
        folder.check(broker, Chores())
    finally:
        broker.kill()


@pytest.mark.parametrize("point", ["aborted.before-append", "aborted.after-append"])
def test_a_crash_while_an_aborted_transaction_is_indexed(point: str, folder: Folder) -> None:
    """The index is made anew from the log; no reader is shown what was aborted (I30, I31)."""
    broker = folder.broker()
    try:
        broker.start(faulty(point))
        aborted = Story(folder.history, "aborted", transaction_version=2, comes_back=True, commit=False, offset=3)
        asyncio.run(aborted.run(broker.bootstrap))
        assert broker.wait_until_dead() == -9
        folder.check(broker, Chores())
        assert asyncio.run(aborted.run(broker.bootstrap))
        assert asyncio.run(last_look(broker, folder.history)) == []
        assert not aborted.is_visible
    finally:
        broker.kill()


def test_no_point_is_left_out() -> None:
    met = {one.partition("@")[0] for one in (*BEFORE, *DECIDED, *OTHER)}
    assert met >= set(POINTS)
