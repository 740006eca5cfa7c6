"""Share groups (KIP-932): who is handed what, what is kept of it, who is a member."""

from tests.mutants.mutant import Change, Mutant

RECORDS = "broker.partitions.share"
PARTITION = f"{RECORDS}.share_partition:SharePartition"
STATE = "coordinator.share_state"
MEMBERS = "coordinator.groups.share"
IN_TURN = "unit/share_groups/test_records_in_turn.py"
SESSIONS = "unit/share_groups/test_sessions_of_members.py"
OF_MEMBERS = "unit/share_groups/test_share_members.py"
KEPT = "unit/share_state/test_share_coordinator.py"
HANDED_OUT = "scenario Records are handed out, and what is said of them is kept"
KEEPS = "scenario What the share coordinator keeps"
TOO_OFTEN = "scenario A record is renewed, given back too often, and locked as long as the group says"
TRANSACTIONS = "scenario Records of transactions, and where a group begins"
LOCKS = "scenario A lock that is over gives the record to another, and a renewal puts that off"
CRASH = "scenario A crash forgets who had what, and nothing of what was kept"

MUTANTS = (
    Mutant(
        "every answer for a share partition counts",
        "ours: what a share coordinator says late, of a partition that was begun anew with since",
        (
            Change(
                f"{MEMBERS}.under_way:UnderWay.end",
                "counts = _without(counts, later.partitions)",
                "pass",
            ),
        ),
        ("unit/share_groups/test_errands_under_way.py",),
        unseen="one in some hundreds of seeds of several nodes can",
    ),
    Mutant(
        "a shared record is handed to two at once",
        "KIP-932: a record is one member's at a time",
        (
            Change(
                f"{RECORDS}.in_flight:Run.is_available",
                "self.state is RecordState.AVAILABLE and",
                "self.state in (RecordState.AVAILABLE, RecordState.ACQUIRED) and",
            ),
        ),
        (HANDED_OUT, IN_TURN),
    ),
    Mutant(
        "anybody may speak of a shared record",
        "who lost a record to another accepts it behind its back",
        (Change(f"{RECORDS}.acknowledging:_check", "if run.member_id != member_id:", "if False:"),),
        (HANDED_OUT, IN_TURN),
    ),
    Mutant(
        "what was accepted is handed out again",
        "KIP-932: accepted is for good",
        (
            Change(
                f"{RECORDS}.acknowledging:Staged.complete",
                "run.become(run.target)",
                "run.become(RecordState.AVAILABLE)",
            ),
        ),
        (HANDED_OUT, IN_TURN),
    ),
    Mutant(
        "what is said of shared records is answered before it is kept",
        "an accepted record comes again after a crash",
        (
            Change(
                f"{PARTITION}._acknowledge",
                "await self._write(window, staged) if staged else ErrorCode.NONE",
                "(staged and self._own(self._write(window, staged)), ErrorCode.NONE)[1]",
            ),
        ),
        ("seed 40", IN_TURN),
    ),
    Mutant(
        "records that a member spoke of in vain are nobody's",
        "their member cannot speak of them again, and nobody else is handed them",
        (Change(f"{RECORDS}.acknowledging:Staged.take_back", "run.target = None", "pass"),),
        (LOCKS, IN_TURN),
    ),
    Mutant(
        "a shared record is delivered once too often",
        "KIP-932: the limit of deliveries",
        (
            Change(
                f"{RECORDS}.states:released",
                "delivery_count >= most_deliveries",
                "delivery_count > most_deliveries",
            ),
        ),
        (TOO_OFTEN, IN_TURN),
    ),
    Mutant(
        "a lock on a shared record never ends",
        "a member that hangs keeps its records for ever",
        (Change(f"{PARTITION}._check_locks", "if late:", "if False:"),),
        (LOCKS, IN_TURN),
    ),
    Mutant(
        "a renewal of a lock is worth nothing",
        "KIP-1222: who works long loses its records",
        (Change(f"{RECORDS}.acknowledging:acknowledge", "if renewal.lock_until_ms is not None:", "if False:"),),
        (LOCKS, IN_TURN),
    ),
    Mutant(
        "who leaves a share group keeps what it was handed",
        "records come to nobody before their locks end",
        (Change("broker.api.share_sessions:ShareSessions.end", "self._on_end(session)", "pass"),),
        (LOCKS, SESSIONS),
    ),
    Mutant(
        "a share session goes on at any epoch",
        "a repeated request is taken for a new one",
        (Change("broker.api.share_sessions:ShareSessions.move_on", "if session.epoch != epoch:", "if False:"),),
        ("scenario Sessions of members", SESSIONS),
    ),
    Mutant(
        "a share group reads what is not decided",
        "share.isolation.level: records of open transactions are handed out",
        (
            Change(
                f"{PARTITION}._read",
                "offset, committed = window.next_fetch_offset(), settings.read_committed",
                "offset, committed = window.next_fetch_offset(), False",
            ),
        ),
        (TRANSACTIONS, IN_TURN),
    ),
    Mutant(
        "a share group is handed aborted records",
        "share.isolation.level: what was aborted is shown",
        (
            Change(
                f"{PARTITION}.acquire",
                "acquired = list(_without(acquired, batch.first, batch.last))",
                "pass",
            ),
        ),
        (TRANSACTIONS, IN_TURN),
    ),
    Mutant(
        "what is kept of a share partition is forgotten by its next life",
        "everything is delivered again after a restart",
        (Change(f"{RECORDS}.window:Window.restored", "for batch in kept:", "for batch in ():"),),
        (CRASH, "property/test_share_window.py", IN_TURN),
    ),
    Mutant(
        "an older state epoch may write",
        "KIP-932: who served a share partition before it was reset writes on",
        (
            Change(
                f"{STATE}.coordinator:ShareCoordinator._usable",
                "state_epoch != UNCHANGED and state_epoch < kept.state_epoch",
                "False",
            ),
        ),
        (KEEPS, KEPT),
    ),
    Mutant(
        "an older leader may write what is kept of records",
        "KIP-932: the leader of before an election writes on",
        (
            Change(
                f"{STATE}.coordinator:ShareCoordinator._usable",
                "leader_epoch != UNCHANGED and leader_epoch < kept.leader_epoch",
                "False",
            ),
        ),
        (KEEPS, KEPT),
    ),
    Mutant(
        "of two state batches the one that was delivered less often counts",
        "a late release undoes an acceptance",
        (
            Change(
                f"{STATE}.batches:combined",
                "heappush(covering, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))",
                "heappush(covering, (batch.delivery_count, -batch.delivery_state, batch.last_offset))",
            ),
        ),
        (KEEPS, "unit/share_state/test_batches.py"),
    ),
    Mutant(
        "the log of share state is deleted up to its end",
        "what is kept is gone with the next restart",
        (
            Change(
                "broker.coordination.share_groups.upkeep:prune",
                "partition.high_watermark if needed_from is None else needed_from",
                "partition.high_watermark",
            ),
        ),
        ("seed 38", "unit/share_state/test_share_state_in_a_node.py"),
    ),
    Mutant(
        "an older epoch of a member of a share group is served",
        "two processes of one id",
        (
            Change(
                f"{MEMBERS}.protocol:ShareProtocol._member",
                "said.epoch < member.epoch and said.epoch != member.previous_epoch",
                "False",
            ),
        ),
        ("scenario Heartbeats that are wrong", OF_MEMBERS),
    ),
    Mutant(
        "a member that leaves a share group is still counted",
        "the memory of groups fills up, and no group takes members any more",
        (
            Change(
                f"{MEMBERS}.group:ShareGroup.remove",
                "self._count(self.members.pop(member_id, None), -1)",
                "self.members.pop(member_id, None)",
            ),
        ),
        ("seed 6",),
    ),
    Mutant(
        "what was begun with before the clock was set back is waited for",
        "ours, found by simulation: members of a share group are given nothing for half an hour",
        (
            Change(
                f"{MEMBERS}.partitions:Shared.missing",
                "since_ms < asked.since_ms <= now_ms",
                "since_ms < asked.since_ms",
            ),
        ),
        (OF_MEMBERS,),
        unseen="half an hour of a clock that is set back, and a crash at that moment: one seed in some hundred has it",
    ),
)
