"""A last look at a broker: until nothing is undecided any more, then every record and every committed offset of it.

What is found goes into the history of `tests.simulation.history`, and the checkers of the simulation judge it.
"""

import asyncio
from collections.abc import Iterable
from functools import partial

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.transactions import ListTransactionsRequest
from tallystick.client.client import EARLIEST, GROUP, LATEST, Client
from tallystick.client.errors import check
from tallystick.client.reading import read_all
from tests.simulation.checkers import CHECKERS
from tests.simulation.history import FinalPartition, History, Place

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
PATIENCE_S = 60.0
PAUSE_S = 0.02


async def look(client: Client, history: History, places: Iterable[Place], groups: Iterable[str] = ()) -> None:
    """Wait for the end of everything that is open, then read it all."""
    await until_nothing_is_open(client, history)
    for place in places:  # Of several nodes on a machine that has too much to do, one may lose its place even now.
        history.final[place] = await client.patiently(partial(read_partition, client, history, place))
    for group in groups:
        await read_offsets(client, history, group)


def verdict(history: History) -> list[str]:
    """What is wrong, in sentences."""
    return [*history.violations, *(f"{name}: {text}" for name, judge in CHECKERS.items() for text in judge(history))]


async def until_nothing_is_open(client: Client, history: History) -> None:
    """Every transaction is ended, by its client or by time (I44)."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        answer = await client.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
        open_ones = [one for one in answer.transaction_states if one.transaction_state in OPEN_STATES]
        if not answer.error_code and not open_ones:
            return
        if asyncio.get_running_loop().time() > deadline:
            found = [(one.transactional_id, one.transaction_state) for one in open_ones]
            history.violation(f"still open though everything healed: {found or answer.error_code}")
            return
        await asyncio.sleep(PAUSE_S)


async def read_partition(client: Client, history: History, place: Place) -> FinalPartition:
    """Everything in it, once the last stable offset has reached the high watermark."""
    topic, partition = place
    start = await client.offset_at(topic, partition, EARLIEST)
    end = await client.offset_at(topic, partition, LATEST)
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while (stable := await client.offset_at(topic, partition, LATEST, read_committed=True)) < end:
        if asyncio.get_running_loop().time() > deadline:
            history.violation(f"the last stable offset of {place} stays at {stable} of {end}")
            break
        await asyncio.sleep(PAUSE_S)
    views = [
        [
            (record.offset, int(record.value or b"-1"))
            for record in await read_all(client, topic, partition, read_committed=read_committed)
        ]
        for read_committed in (True, False)
    ]
    return FinalPartition(start, end, stable, views[0], views[1])


async def read_offsets(client: Client, history: History, group: str) -> None:
    """The committed offsets of a group, once none is pending."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True)
    while True:
        connection = await client.coordinator(group, GROUP)
        answer = (await connection.ask(request, 8)).groups[0]
        codes = {answer.error_code} | {one.error_code for topic in answer.topics for one in topic.partitions}
        if codes == {0} or asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(PAUSE_S)
    if codes != {0}:
        names = sorted(ErrorCode(code).name for code in codes)
        history.violation(f"the offsets of {group} cannot be read though everything healed: {names}")
        return
    for topic in answer.topics:
        for one in topic.partitions:
            check(one.error_code)
            if one.committed_offset >= 0:
                history.final_offsets[group, topic.name, one.partition_index] = one.committed_offset
