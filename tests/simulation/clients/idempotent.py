"""A producer without transactions: up to five batches in flight, repeated over reconnects, order kept."""

import asyncio
from random import Random

from protocol.errors import ErrorCode
from protocol.messages.transactions import InitProducerIdRequest
from tests.simulation.clients.keys import keyed
from tests.simulation.clients.sending import Batch, Refused, Sender, encode_batch, now_ms
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.shape import ClientPlan, Plan
from tests.simulation.world import World


async def run(world: World, plan: ClientPlan) -> None:
    """Write until it is time to finish."""
    random = Random(plan.seed)
    session = Session(world, plan.name)
    topic = str(plan.option("topic", "a"))
    in_flight = plan.option("in_flight", 5)
    assert isinstance(in_flight, int)
    sender = Sender(session, random.choice((9, 11, 12)), in_flight=in_flight, again=world.plan.repeat)
    producer: tuple[int, int] | None = None
    sequences: dict[int, int] = {}
    while not world.closing:
        if producer is None:
            producer = await new_identity(session)
            sequences.clear()
        batches = []
        for _ in range(random.choice((1, 3, 5, 8))):
            partition = random.randrange(world.plan.partitions)
            base = sequences.get(partition, 0)
            writes = [
                world.history.write(
                    plan.name, (topic, partition), producer=producer, sequence=base + delta, **keyed(random, topic)
                )
                for delta in range(random.choice((1, 1, 2, 5)))
            ]
            sequences[partition] = base + len(writes)
            data = encode_batch(writes, now_ms=now_ms(world), transactional=False, base_sequence=base)
            batches.append(Batch((topic, partition), writes, data))
        try:
            await sender.send(batches)
        except Refused as refused:
            # A producer that was forgotten may be refused: a repeated batch was taken for its first.
            breaks = world.history.ends + world.history.serves
            if world.history.forgets_producers_ms is None and overtaken(
                refused.batch,
                batches,
                breaks,
                lossy=_loses_requests(world.plan),
                several=len(world.ports) > 1,
            ):
                for write in refused.batch.writes:
                    write.overtaken = True
                world.hit("producer.overtaken")
            elif world.history.forgets_producers_ms is None:
                world.history.violation(
                    f"{plan.name}: a producer that did everything right was refused: {ErrorCode(refused.code).name}",
                    of_promise=True,
                )
            world.hit("producer.refused")
            producer = None
        await asyncio.sleep(random.choice((0.0, 0.002, 0.02, 0.1)))


def overtaken(
    refused: Batch, batches: list[Batch], breaks: list[int], *, lossy: bool = False, several: bool = False
) -> bool:
    """Whether one that was on the way behind the producer's first batch for a partition was let in before it: a
    partition that knows nothing of a producer takes any sequence. Kafka's does too; only where there are transactions
    is the first one waited for (KAFKA-14920, KAFKA-18202).

    The first got a retriable error; or it was lost on its way, or the broker ended before it was in the log, or did not
    serve when it was sent, or a power cut took all of them from the disk, unacknowledged, and a late copy of the other,
    from the network, was there before the client. `breaks` are the times when the broker ended and when it served
    again; `lossy`: requests may be lost without that. Of `several` nodes one may have had the first, and have been
    replaced before that was committed, and another the one behind it, before the first was sent again.
    """
    if refused.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or refused.writes[0].sequence:
        return False
    behind = [batch for batch in batches if batch.place == refused.place and batch is not refused and batch.attempts]
    interrupted = any(time > refused.writes[0].sent_at for time in breaks) or (lossy and refused.attempts > 1)
    if interrupted and any(batch.writes[0].sends > batch.attempts for batch in behind):
        return True
    # Acknowledged, or nobody knows.
    went_elsewhere = several and refused.attempts > 1
    return (refused.turned_away or went_elsewhere) and any(batch.code == ErrorCode.NONE for batch in behind)


def _loses_requests(plan: Plan) -> bool:
    return plan.network.cut > 0 or any(fault.operation.startswith("request.Produce=drop") for fault in plan.faults)


async def new_identity(session: Session) -> tuple[int, int]:
    """InitProducerId without a transactional id, until it is answered."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    while True:
        try:
            answer = await session.ask(request, 4)
        except NoAnswer:
            await asyncio.sleep(0.02)
            continue
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        await asyncio.sleep(0.01)
