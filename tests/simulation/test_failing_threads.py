"""Work of a thread that fails as nobody expects ends the broker, loudly, and no client waits for ever. Without threads
the loop does their work."""

import pytest

from tests.harness.environment import NO_THREAD, ONE_THREAD
from tests.harness.network import NetworkFaults
from tests.simulation.plan_faults import NO_MORE, THREAD
from tests.simulation.shape import ClientPlan, FaultPlan, Plan
from tests.simulation.simulation import Result, run

CLIENTS = (
    ClientPlan("idempotent", "idempotent0", 1, 0.0, (("topic", "a"), ("in_flight", 5))),
    ClientPlan(
        "transactional",
        "transactional0",
        2,
        0.0,
        tuple({"id": "t", "version": 2, "topics": "ab", "zombie": 0.0, "dies": 0.0, "timeout_ms": 1000}.items()),
    ),
    ClientPlan("admin", "admin0", 3, 0.0, (("chores", "topics"),)),
)


def lived(*faults: FaultPlan) -> Result:
    """A second of writing with these faults."""
    settings = (("log.flush.offset.checkpoint.interval.ms", "20"), ("log.segment.delete.delay.ms", "0"))
    return run(
        Plan(
            1,
            1.0,
            1500,
            0.001,
            NetworkFaults(delay_s=0.001),
            "kill",
            partitions=2,
            clients=CLIENTS,
            faults=faults,
            settings=settings,
        )
    )


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_work_that_fails_is_heard_of(count: int, after: int) -> None:
    """I49: a log that is being opened, a sync, a checkpoint, the folders of a deleted topic: whichever it is."""
    opening = lived(FaultPlan("kill", 0.3, down_s=0.01), FaultPlan(THREAD, 0.3, "beside", count, amount=after))
    assert opening.violations == []
    assert opening.hits.get("fault.thread-beside")
    blocking = lived(FaultPlan(THREAD, 0.3, "blocking", count, amount=after))
    assert blocking.violations == []
    assert blocking.hits.get("fault.thread-blocking")


@pytest.mark.parametrize("threads", [ONE_THREAD, NO_THREAD])
def test_without_more_threads_the_work_is_done(threads: int) -> None:
    result = lived(FaultPlan(NO_MORE, 0.2, amount=threads), FaultPlan("kill", 0.4, down_s=0.01))
    assert result.violations == []
    assert result.hits["transaction.committed"] > 5
