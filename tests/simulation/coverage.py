"""What a long run must have met. A name nobody met means that the simulation does not test what it says it tests.

Every fault point is to be passed in some hundred seeds (`passed.…`), every one of the broker's own to be struck in
some thousand (`struck.…`). The points `request.<Api>` and `answer.<Api>` of an API that no model client requests are
the only ones that a simulation does not come by; `tests/chaos` and the tests of the handlers do.
"""

from broker.faults.points import ANSWER, POINTS, REQUEST, Action
from broker.partitions.share.states import AcknowledgeType
from protocol.errors import ErrorCode
from tests.simulation.plan_faults import APIS, OPERATIONS, START_MOMENTS
from tests.simulation.rot import WAYS
from tests.simulation.silence import SILENT

RARE = ("make_folder",)
"""What topics are made with: there are few of them."""
MET_OVER_A_STORE = (
    *(f"store.{name}" for name in ("unreachable", "answer-lost", "late", "found-made", "given-up", "brought")),
    *(f"store.{name}" for name in ("replaced", "forgotten", "fenced-commit", "uploaded", "upload-failed")),
    *(f"store.{name}" for name in ("twice", "overtaken")),
    "fault.power",
    "fault.stop",
    "broker.restarted",
)
"""What a run over a shared store must have met."""
MET_BY_NODES = (
    *MET_OVER_A_STORE,
    *(f"fault.{kind}" for kind in ("freeze", "no store", "no nodes", "clock", "drift", "failover", "slow store")),
    *(f"failover.{what}" for what in ("all-was-there", "lost", "lost-what-was-shown")),
    *(f"store.{what}" for what in ("slow", "upload-given-up")),
    *(f"silence.{what}" for what in SILENT),
    *(f"nodes.{what}" for what in ("ousted", "stood-still", "ended-in-silence")),
    *(f"router.{what}" for what in ("elsewhere", "joined", "near")),
    "reader.read-near",
    "worker.processed",
    "worker.fenced",
    "group.joined",
    "consumers.took",
    "streams.took",
    *(f"sharers.{what}" for what in ("assigned", "handed", "handed-again", "leaves", "dies", "sleeps")),
    *(f"sharers.said-{kind.name}" for kind in AcknowledgeType),
    *(f"sharers.refused-{error}" for error in ("INVALID_RECORD_STATE", "NOT_LEADER_OR_FOLLOWER")),
    "transaction.committed",
    "transaction.aborted",
    "produce.retried",
)
"""What a run of several nodes must have met."""
EXPECTED = (
    *(f"fault.{operation}" for operation in OPERATIONS if operation not in RARE),
    "fault.kill",
    "fault.power",
    "fault.stop",
    "fault.full",
    "fault.failed-sync",
    "fault.thread-blocking",
    "fault.thread-beside",
    "fault.no-more-threads",
    "fault.clock",
    "fault.drift",
    "rot.lost",
    *(f"rot.{way}" for way in WAYS),
    "fault.power-on-page-cache",
    "sick.bit",
    "sick.unreadable",
    "sick.now and then",
    "sick.unreadable index",
    "sick.spoilt index",
    "sick.two",
    "fault.read-failed",
    "fetch.error-56",
    *(f"fault.at-a-point.{action.value}" for action in Action),
    "network.cut",
    "network.split",
    "network.half-open",
    "network.joined",
    "network.delivered-again",
    "network.twice-at-once",
    "client.promised-twice",
    "broker.restarted",
    "client.slept",
    "client.died",
    "client.fenced",
    "worker.processed",
    "worker.slept",
    "worker.fenced",
    "group.joined",
    "consumers.took",
    "consumers.gave-back",
    "consumers.committed",
    *(f"consumers.{how}" for how in ("leaves", "away", "dies", "sleeps")),
    "streams.took",
    "streams.gave-back",
    "streams.keeps-a-copy",
    "streams.committed",
    *(f"streams.{how}" for how in ("leaves", "dies", "sleeps")),
    "streams.status-3",
    "sharers.assigned",
    "sharers.handed",
    "sharers.handed-again",
    *(f"sharers.said-{kind.name}" for kind in AcknowledgeType),
    *(f"sharers.{how}" for how in ("leaves", "dies", "sleeps")),
    "sharers.refused-INVALID_RECORD_STATE",
    "member.began-anew",
    "transaction.committed",
    "transaction.aborted",
    "transaction.given-up",
    "produce.retried",
    "fetch.out-of-range",
    "admin.trimmed",
    "admin.created",
    "admin.deleted",
    "admin.aborted",
    *(f"admin.transaction.version={level}" for level in (0, 1, 2)),
    *(f"produce.acks={acks}" for acks in (-1, 0, 1)),
    "offsets.committed",
    *(f"silence.{what}" for what in SILENT),
    "log.rolled",
    "log.compacted",
    "log.cut-at-recovery",
    "crash.Ongoing",
    "crash.PrepareCommit",
    "crash.PrepareAbort",
    "crash.CompleteCommit",
    "crash.CompleteAbort",
    "crash.opening",
    "crash.loading",
    *(f"fault.{moment}" for moment in START_MOMENTS),
    *(f"passed.{name}" for name in POINTS),
    *(f"passed.{kind}{api}" for kind in (REQUEST, ANSWER) for api in APIS),
)
"""Named states and faults; each has to be hit in a run of some hundred seeds."""
STRUCK = (
    *(f"struck.{name}" for name in POINTS),
    *(f"fault.{operation}" for operation in RARE),
    "wide.made",
    *(f"{what}.error-{ErrorCode.FENCED_INSTANCE_ID.value}" for what in ("join", "heartbeat", "TxnOffsetCommit")),
)
STRUCK_FROM = 5_000
"""In so many seeds each point is to have been struck, too."""


def missing(hits: dict[str, int], seeds: int = 0) -> list[str]:
    """What was not met in a run of so many seeds."""
    expected = (*EXPECTED, *STRUCK) if seeds >= STRUCK_FROM else EXPECTED
    return [name for name in expected if not hits.get(name)]
