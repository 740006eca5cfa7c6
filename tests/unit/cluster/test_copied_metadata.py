"""A copy of a data folder gives away no producer id that the first broker may have given away since."""

import asyncio

from broker.coordination.cluster import PASSED_OVER
from broker.node import Node
from storage.checkpoints import COPY_FILE
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.broker.test_restarts import life


async def next_id(node: Node) -> int:
    while (taken := node.services.producer_ids.take()) is None:
        await asyncio.sleep(0)
    return taken


def lived(files: SimulatedFiles) -> int:
    """The first id of the next life."""
    found: list[int] = []

    async def takes(node: Node) -> None:
        found.append(await next_id(node))

    life(files, takes)
    return found[0]


def test_copies_give_away_ids_of_their_own() -> None:
    files = SimulatedFiles()
    first = lived(files)
    copies = [files.kill(), files.kill()]
    for copy in copies:
        copy.write_whole(COPY_FILE)
    others = [lived(copy) for copy in copies]
    assert min(others) > first + PASSED_OVER and others[0] != others[1], "nor one that another copy has"
    assert lived(files) < first + PASSED_OVER
    again = [lived(copy) for copy in copies]
    assert all(0 < later - earlier < PASSED_OVER for earlier, later in zip(others, again, strict=True)), "once"
    assert not any(copy.exists(COPY_FILE) for copy in copies)
