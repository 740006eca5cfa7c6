"""The broker dies, refuses or loses an answer at the points of the transaction itself, in the middle of a query.

The query goes on in every case: its requests are repeated with the same epoch and sequences (I1, I19), and what was
decided stays decided. The points are those of docs/faults.md.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.process import BrokerProcess
from tests.harness.broker import KAFKA
from tests.spark.eos_queries import input_of, run_eos
from tests.spark.faulty_writer import run_many
from tests.spark.outcome import right, started_again

pytestmark = pytest.mark.skipif(KAFKA, reason="the fault points are our broker's")

PLACES = ("before-append", "after-append", "after-sync")
"""The pass that belongs to the second batch: some points are met once per batch, some once per partition."""
CRASHES = [
    *(f"{point}.{place}=crash@2" for point in ("init", "offsets", "prepare", "complete") for place in PLACES),
    *(f"{point}.{place}=crash@6" for point in ("ongoing", "produce") for place in PLACES),
    *(f"marker.{place}=crash@7" for place in ("before", "after-append", "after-sync")),
]
LOST = [
    *(f"{side}.{api}=drop@2" for side in ("request", "answer") for api in ("InitProducerId", "EndTxn")),
    *(f"{side}.{api}=drop@2" for side in ("request", "answer") for api in ("TxnOffsetCommit", "FindCoordinator")),
    *(f"{side}.Produce=drop@6" for side in ("request", "answer")),
    "answer.EndTxn=drop@2x3",
]
REFUSED = [
    "request.EndTxn=fail:CONCURRENT_TRANSACTIONS@2x5",
    "request.InitProducerId=fail:COORDINATOR_LOAD_IN_PROGRESS@2x5",
    "request.TxnOffsetCommit=fail:NOT_COORDINATOR@2x3",
    "request.Produce=fail:NOT_ENOUGH_REPLICAS@6x3",
    "marker.before=fail:NOT_LEADER_OR_FOLLOWER@7x3",
]
SHORT = {"prepare.after-append=crash@2", "answer.EndTxn=drop@2"}
MANY_SHORT = {"produce.after-append=crash@6"}


def of(faults: list[str], short: set[str] = SHORT) -> list[Any]:
    return [pytest.param(fault, marks=() if fault in short else pytest.mark.whole) for fault in faults]


class Story:
    """A broker that holds the input and is started again with faults in it; then the query."""

    def __init__(self, broker: BrokerProcess, name: str, faults: str) -> None:
        self.broker, self.name = broker, name
        self.wanted = input_of(broker.start().bootstrap, name)
        broker.stop()
        broker.environment = {"TALLYSTICK_FAULTS": faults}
        broker.start()
        broker.environment = {}

    def goes_through(self, spark: Any, checkpoint: str, run: Callable[..., Any] = run_eos) -> None:
        with started_again(self.broker):
            run(spark, self.broker.bootstrap, self.name, checkpoint, groupId=f"{self.name}-group")
        assert "a fault strikes" in self.broker.log_end(1 << 20)
        right(self.broker.bootstrap, self.name, self.wanted)


@pytest.mark.parametrize("fault", of(CRASHES))
def test_the_broker_dies_at_a_point_of_the_transaction(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str, fault: str
) -> None:
    story = Story(own_broker(), name, fault)
    story.goes_through(spark, checkpoint)
    assert story.broker.starts == 3


@pytest.mark.parametrize("fault", of([*LOST, *REFUSED]))
def test_a_request_or_its_answer_is_lost_or_refused(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str, fault: str
) -> None:
    """A lost response to EndTxn above all: on a retry, the broker knows what it decided (KIP-890)."""
    story = Story(own_broker(), name, fault)
    story.goes_through(spark, checkpoint)
    assert story.broker.starts == 2


@pytest.mark.parametrize("fault", of([*CRASHES, *LOST, *REFUSED], short=MANY_SHORT))
def test_many_writers_go_through_it_in_their_turns(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str, fault: str
) -> None:
    """What is repeated has the sequence number of its turn."""
    Story(own_broker(), name, fault).goes_through(spark, checkpoint, run_many)
