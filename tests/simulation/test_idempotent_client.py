"""When the model of an idempotent producer takes a refusal for its own bad luck, and when for a wrong of the broker."""

from dataclasses import replace

import pytest

from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceResponse
from tests.simulation.clients.idempotent import overtaken
from tests.simulation.clients.sending import Batch
from tests.simulation.history import History, Place
from tests.simulation.plan import draw
from tests.simulation.shape import FaultPlan
from tests.simulation.simulation import run

A, B = ("a", 0), ("b", 0)
OUT_OF_ORDER, AGAIN = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.NOT_ENOUGH_REPLICAS


def batch(*codes: int, sequence: int = 0, place: Place = A) -> Batch:
    """One that was answered so, one attempt after the other; -1 is no answer."""
    history = History()
    made = Batch(place, [history.write("producer", place, producer=(7, 0), sequence=sequence)], b"")
    for code in codes:
        made.attempts += 1
        made.code = 0
        if code >= 0:
            made.take(PartitionProduceResponse(index=place[1], error_code=code, base_offset=0), history)
    return made


def test_the_first_batch_is_refused_and_the_second_accepted() -> None:
    """A partition takes any sequence of a producer that it does not know; Kafka's does too."""
    first = batch(AGAIN, OUT_OF_ORDER)
    assert overtaken(first, [first, batch(0, sequence=1)], [])
    assert overtaken(first, [first, batch(AGAIN, sequence=1), batch(-1, sequence=2)], [])


@pytest.mark.parametrize(
    ("refused", "behind"),
    [
        (batch(-1, OUT_OF_ORDER), batch(0, sequence=1)),
        (batch(OUT_OF_ORDER), batch(0, sequence=1)),
        (batch(AGAIN, ErrorCode.INVALID_PRODUCER_EPOCH), batch(0, sequence=1)),
        (batch(AGAIN, OUT_OF_ORDER, sequence=1), batch(0, sequence=2)),
        (batch(AGAIN, OUT_OF_ORDER), batch(AGAIN, OUT_OF_ORDER, sequence=1)),
        (batch(AGAIN, OUT_OF_ORDER), batch(sequence=1)),
        (batch(AGAIN, OUT_OF_ORDER), batch(0, place=B)),
    ],
    ids=["nobody turned it away", "at once", "fenced", "not the first", "nothing let in", "nothing sent", "elsewhere"],
)
def test_everything_else_is_a_wrong(refused: Batch, behind: Batch) -> None:
    """I21, I46: a producer that did everything right is not refused."""
    assert not overtaken(refused, [refused, behind], [])


def test_another_node_has_heard_of_the_one_behind() -> None:
    """The first is with a node that was replaced before it could commit it."""
    first, behind = batch(-1, OUT_OF_ORDER), batch(0, sequence=1)
    assert overtaken(first, [first, behind], [], several=True)
    assert not overtaken(first, [first, batch(-1, AGAIN, sequence=1)], [], several=True), "nothing was let in"
    heard = batch(OUT_OF_ORDER)
    assert not overtaken(heard, [heard, behind], [], several=True), "it was heard at once"


def test_a_late_copy_arrives_first_after_a_power_cut() -> None:
    """Nothing was acknowledged and nothing is left: the copy is the first that the partition hears of its producer."""
    first, behind = batch(-1, OUT_OF_ORDER), batch(-1, sequence=1)
    behind.on_the_way(0.0, sent=True)
    assert not overtaken(first, [first, behind], [2]), "sent once only: who is in front of it is heard first"
    behind.on_the_way(1.0, sent=True)
    assert overtaken(first, [first, behind], [2])
    assert not overtaken(first, [first, behind], []), "what was appended is remembered"
    assert overtaken(first, [first, behind], [], lossy=True), "it may have been lost on its way"
    assert not overtaken(batch(OUT_OF_ORDER), [first, behind], [], lossy=True), "it was heard at once"


@pytest.mark.parametrize("seed", [70010094, 70006917], ids=["lost connection", "lost requests"])
def test_seeds_in_which_a_later_batch_might_come_first(seed: int) -> None:
    """The runs that showed it: over a new connection a later batch would be there before those that were lost with the
    old one; and a late copy of one is there before what was lost is repeated."""
    assert run(draw(seed)).violations == []


def test_a_refusal_that_ends_between_two_batches() -> None:
    """The run that showed it: ten appends in a row are turned away, and the eleventh is not the producer's first."""
    plan = draw(9537)
    refusing = FaultPlan("point", 0.04, "produce.before-append=fail:NOT_ENOUGH_REPLICAS@1x10")
    result = run(replace(plan, faults=(refusing,)))
    assert result.hits["producer.overtaken"]
    assert result.violations == []
