"""What a long run must have met. A name nobody met means that the simulation does not test what it says it tests."""

from tests.simulation.plan_faults import OPERATIONS

EXPECTED = (
    *(f"fault.{operation}" for operation in OPERATIONS),
    "fault.kill",
    "fault.power",
    "fault.stop",
    "fault.full",
    "fault.failed-sync",
    "fault.clock",
    "network.cut",
    "network.split",
    "network.delivered-again",
    "broker.restarted",
    "client.slept",
    "client.died",
    "client.fenced",
    "worker.processed",
    "worker.slept",
    "worker.fenced",
    "group.joined",
    "transaction.committed",
    "transaction.aborted",
    "transaction.given-up",
    "produce.retried",
    "fetch.out-of-range",
    "admin.trimmed",
    "admin.created",
    "admin.deleted",
    "log.rolled",
    "log.compacted",
    "log.cut-at-recovery",
    "crash.Ongoing",
    "crash.PrepareCommit",
    "crash.PrepareAbort",
    "crash.CompleteCommit",
    "crash.CompleteAbort",
    "crash.loading",
)
"""Named states and faults; each has to be hit in a run of some hundred seeds."""


def missing(hits: dict[str, int]) -> list[str]:
    return [name for name in EXPECTED if not hits.get(name)]
