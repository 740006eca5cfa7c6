"""After everything has healed: until no transaction is open, one last end of the broker, and a last look at it all."""

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.transactions import ListTransactionsRequest
from tests.simulation import sharing
from tests.simulation.books import check_books
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.clients.lookup import offset_at
from tests.simulation.clients.reader import Reader
from tests.simulation.clients.session import Session
from tests.simulation.faults import Faults
from tests.simulation.history import FinalPartition, Place
from tests.simulation.memory import left_over
from tests.simulation.plan_clients import COMPACTED
from tests.simulation.world import World

SETTLE_S = 150.0
"""More than a minute: so long an alarm may sleep on after somebody set the clock."""
TOPICS = ("a", "b", "out", COMPACTED)
"""Topics that are there from the beginning to the end."""
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


async def look(world: World, broker: BrokerProcess, faults: Faults) -> None:
    """See the head of this file."""
    session = Session(world, "last")
    await wait_until_no_transaction_is_open(world, broker, session)
    if world.plan.final:
        await faults.finally_end(world.plan.final)
        session.drop()
        await wait_until_no_transaction_is_open(world, broker, session)
    places = [(topic, index) for topic in TOPICS for index in range(world.plan.partitions)]
    places += world.plan.wide.places if world.plan.wide is not None else []
    for place in places:
        world.history.final[place] = await _read(world, session, place)
    for place, base in world.history.vanished:
        final = world.history.final.get(place)
        if final is not None and place[0] not in world.history.compacted and final.log_start_offset <= base:
            world.history.violation(f"of {place} a spoilt segment is gone, from {base}; it starts at {final}")
    await read_offsets(world, session)
    if world.history.shares:
        await sharing.accept_the_rest(world, SETTLE_S)
    await _check_memory(world, broker)


async def read_offsets(world: World, session: Session) -> None:
    """Those of every group that committed any."""
    groups = {group for one in world.history.transactions for group, _, _ in one.offsets}
    for group in sorted(groups | {group for group, _, _ in world.history.commits}):
        await _read_offsets(world, session, group)


async def find_coordinator(session: Session, kind: int, key: str = "x") -> None:
    """Make sure that there is one."""
    while True:
        answer = await session.insist(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
        if not answer.coordinators[0].error_code:
            return
        await asyncio.sleep(0.01)


async def exists(world: World, topic: str) -> bool:
    """Whether there is such a topic."""
    session = Session(world, "last")
    try:
        answer = await session.insist(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        return bool(answer.topics[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    finally:
        session.drop()


async def wait_until_no_transaction_is_open(world: World, broker: BrokerProcess, session: Session) -> None:
    deadline = world.scheduler.now + SETTLE_S
    while True:
        answer = await session.insist(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
        open_ones = [one for one in answer.transaction_states if one.transaction_state in OPEN_STATES]
        if not answer.error_code and not open_ones:
            return
        if (
            all(one.transaction_state == "Ongoing" for one in open_ones)
            and world.scheduler.now > deadline - SETTLE_S / 2
        ):
            broker.clock.heal()  # what timed out by a clock that was set back since does so when that is made up for
        if world.scheduler.now > deadline:
            found = [(one.transactional_id, one.transaction_state) for one in open_ones]
            world.history.violation(f"transactions are open though everything healed: {found or answer.error_code}")
            return
        await asyncio.sleep(0.25)


async def _offset_at(session: Session, place: Place, timestamp: int, isolation: int) -> int:
    found = await offset_at(session, place, timestamp, isolation)
    assert found is not None, f"{place} is gone"
    return found


async def _read(world: World, session: Session, place: Place) -> FinalPartition:
    start = await _offset_at(session, place, -2, 0)
    deadline = world.scheduler.now + SETTLE_S
    while (high_watermark := await _offset_at(session, place, -1, 0)) < _promised(world, place):
        if world.scheduler.now > deadline:
            break  # the checkers miss what is not there
        await asyncio.sleep(0.25)
    while (stable := await _offset_at(session, place, -1, 1)) < high_watermark:
        if world.scheduler.now > deadline:
            world.history.violation(f"the last stable offset of {place} stays at {stable} of {high_watermark}")
            break
        await asyncio.sleep(0.25)
    views = []
    for committed_only, end in ((True, stable), (False, high_watermark)):
        reader = Reader(world, Session(world, f"last-{committed_only}-0"), [place], committed_only=committed_only)
        reader.seek({place: start})
        records: list[tuple[int, int]] = []
        while reader.positions[place] < end:
            before = reader.positions[place]
            records += [(offset, number) for _, offset, number in await reader.poll(max_wait_ms=0)]
            if reader.positions[place] == before and world.scheduler.now > deadline:
                world.history.violation(f"a reader of {place} does not get past {before}; the end is {end}")
                break
        reader.session.drop()
        views.append(records)
    start = await _offset_at(session, place, -2, 0)  # retention goes on while we read
    return FinalPartition(start, high_watermark, stable, views[0], views[1])


def _promised(world: World, place: Place) -> int:
    """Up to where records were acknowledged since anything could be lost: with acks=1 before they are synced."""
    lost = max(world.history.losses, default=0)
    writes = (one for one in world.history.writes if one.place == place and one.acked and one.sent_at > lost)
    return max((one.offset + 1 for one in writes if one.offset is not None), default=0)


async def _read_offsets(world: World, session: Session, group: str) -> None:
    """Until no offset is pending any more."""
    await find_coordinator(session, 0, group)
    deadline = world.scheduler.now + SETTLE_S
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True)
    while True:
        answer = (await session.insist(request, 8)).groups[0]
        found = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
        codes = {answer.error_code, *(one.error_code for _, one in found)} - {0}
        if not codes:
            break
        if world.scheduler.now > deadline:
            names = sorted(ErrorCode(code).name for code in codes)
            world.history.violation(f"the offsets of {group} cannot be read though everything healed: {names}")
            return
        await asyncio.sleep(0.1)
    for topic, one in found:
        if one.committed_offset >= 0:
            world.history.final_offsets[group, topic, one.partition_index] = one.committed_offset


async def _check_memory(world: World, broker: BrokerProcess) -> None:
    """What requests and waits held is given back, soon."""
    for one in broker.each():
        check_books(world, one)
    deadline = world.scheduler.now + SETTLE_S
    while found := [sentence for one in broker.each() for sentence in left_over(world, one)]:
        if world.scheduler.now > deadline:
            world.history.violations += [f"memory: {sentence}" for sentence in found]
            return
        await asyncio.sleep(0.5)
