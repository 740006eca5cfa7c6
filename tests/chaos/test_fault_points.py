"""A real process dies at every fault point of a transaction, once in each protocol; the specification says what must be
left (I04, I05, I21, I37, I44, I50).

Each point is met several times on one data folder: by clients of TV0 and of TV2, by one that comes back and repeats
what was not answered, and by one that never does and is fenced by its successor.
"""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tallystick.client.client import GROUP as GROUP_COORDINATOR
from tallystick.client.client import TRANSACTION, Client
from tests.chaos.forked_broker import ForkedBroker
from tests.chaos.look import look, verdict
from tests.chaos.story import GROUP, PLACES, TOPIC, Story
from tests.simulation.history import History

SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "1"}

BEFORE = [
    *(
        f"{family}.{moment}"
        for family in ("init", "ongoing", "produce", "offsets")
        for moment in ("before-append", "after-append", "after-sync")
    ),
    "prepare.before-append",
]
"""A broker that dies here has decided nothing: without its client the transaction is aborted."""
DECIDED = [
    "prepare.after-append",
    "prepare.after-sync",
    *(f"{point}@{nth}" for point in ("marker.before", "marker.after-append", "marker.after-sync") for nth in (1, 2, 3)),
    *(f"complete.{moment}" for moment in ("before-append", "after-append", "after-sync")),
    "answer.EndTxn",
]
"""A process that dies here has decided: the transaction is committed, whatever its client does."""


THOROUGH = "TALLYSTICK_CHAOS_THOROUGH" in os.environ
VARIANTS = [(2, False), (0, False), (0, True), (2, True)]
"""(protocol, whether the client comes back): all of them at each point, or, in short, two."""


def faulty(point: str) -> str:
    name, _, nth = point.partition("@")
    return f"{name}=crash@{nth or 1}"


def met_by(point: str, broker: ForkedBroker, history: History, variant: tuple[int, bool], number: int) -> Story:
    """One story on a broker that dies at the point; the broker is up again afterwards."""
    transaction_version, comes_back = variant
    story = Story(
        history, f"id{number}", transaction_version=transaction_version, comes_back=comes_back, offset=number + 1
    )
    broker.start(faulty(point))
    asyncio.run(story.run(broker.bootstrap))
    assert broker.wait_until_dead() == -9
    broker.start()
    if comes_back:
        assert asyncio.run(story.run(broker.bootstrap)), broker.log_end()
    else:
        asyncio.run(story.fence(broker.bootstrap))
    return story


async def prepare(broker: ForkedBroker) -> None:
    client = await Client.connect(broker.bootstrap)
    await client.create_topic(TOPIC, len(PLACES))
    await client.coordinator(GROUP, GROUP_COORDINATOR)
    await client.coordinator("any", TRANSACTION)
    await client.close()


async def last_look(broker: ForkedBroker, history: History) -> list[str]:
    client = await Client.connect(broker.bootstrap)
    try:
        await look(client, history, PLACES, [GROUP])
    finally:
        await client.close()
    return verdict(history)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a topic and all internal topics, to be copied."""
    folder = tmp_path_factory.mktemp("prepared")
    broker = ForkedBroker(folder, SETTINGS)
    broker.start()
    asyncio.run(prepare(broker))
    broker.kill()
    broker.log.unlink()
    return folder


@pytest.mark.parametrize("point", [*BEFORE, *DECIDED])
def test_a_crash_at_a_point_of_a_transaction(point: str, prepared: Path, tmp_path: Path) -> None:
    variants = VARIANTS if THOROUGH else VARIANTS[[*BEFORE, *DECIDED].index(point) % 2 :: 2]
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    broker, history = ForkedBroker(tmp_path, SETTINGS), History()
    try:
        stories = []
        for number, variant in enumerate(variants):
            stories.append(met_by(point, broker, history, variant, number))
            found = asyncio.run(last_look(broker, history))
            broker.kill()
            assert found == []
        assert len(broker.struck) == len(stories)
        assert "belongs to nobody" not in broker.log.read_text(), "no orphan was found (I50)"
        for story in stories:
            assert story.is_visible == (story.comes_back or point in DECIDED)
        newest = max(story.offset for story in stories if story.is_visible)
        assert history.final_offsets == {(GROUP, TOPIC, 0): newest}
    finally:
        broker.kill()


def test_time_ends_what_nobody_comes_back_for(prepared: Path, tmp_path: Path) -> None:
    """A crash between two writes; after the restart the timeout of the transaction aborts it (I44)."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    broker, history = ForkedBroker(tmp_path, SETTINGS), History()
    try:
        broker.start("produce.after-append=crash")
        story = Story(history, "id", transaction_version=2, comes_back=False, timeout_ms=500)
        asyncio.run(story.run(broker.bootstrap))
        assert broker.wait_until_dead() == -9
        broker.start()
        assert asyncio.run(last_look(broker, history)) == []
        assert not story.is_visible
        assert history.final[PLACES[0]].everything == [(0, 0)], "the record is in the log, and its transaction aborted"
    finally:
        broker.kill()
