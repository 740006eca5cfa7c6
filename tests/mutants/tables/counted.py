"""Sums that are kept beside what they are sums of, what is to be given back, and the limits of a fetch: only who counts
anew, or asks for little, notices."""

from tests.mutants.mutant import Change, Mutant

SOON = ("simulation 60",)

MUTANTS = (
    Mutant(
        "a member that leaves a group is still counted",
        "the memory of groups fills up, and no group takes members any more",
        (
            Change(
                "coordinator.groups.membership:Membership.remove",
                "self._hold(-member.counted_bytes)",
                "pass",
            ),
        ),
        SOON,
    ),
    Mutant(
        "a member id that was handed out is not counted",
        "KIP-394: ids cost nothing, and a client asks for millions",
        (
            Change(
                "coordinator.groups.membership:Membership.hand_out",
                "self._hold(PENDING_BYTES + text_bytes(member_id))",
                "pass",
            ),
        ),
        SOON,
    ),
    Mutant(
        "answers that left in order are still counted",
        "a connection that has answered much takes one Produce at a time, for good",
        (
            Change(
                "broker.network.pending_answer:AnswersInOrder.known",
                "self.known_bytes -= _size(parts)",
                "pass",
            ),
        ),
        SOON,
    ),
    Mutant(
        "partitions of a fetch session that ended are still counted",
        "KIP-227: after some hours nobody gets a session",
        (
            Change(
                "broker.api.fetching.fetch_sessions:FetchSessions._drop", "self.partitions -= session.counted", "pass"
            ),
        ),
        SOON,
    ),
    Mutant(
        "whoever waited for a marker watches on",
        "each transaction makes every later one slower",
        (
            Change(
                "broker.coordination.marker_writer:UncommittedMarkers._forget",
                "partition.unwatch(self._watchers.pop(partition))",
                "pass",
            ),
        ),
        SOON,
    ),
    Mutant(
        "a group remembers partitions whose transactions are over",
        "memory that does not come back, and a group that is never idle",
        (Change("coordinator.groups.offsets:OffsetStore._unlink", "del self._producers[group_id]", "pass"),),
        SOON,
    ),
    Mutant(
        "each partition of a fetch has one batch, whatever was asked for",
        "KIP-74: of a thousand partitions an answer is a thousand times too large",
        (
            Change(
                "broker.api.fetching.fetch_attempt:FetchAttempt._read_one",
                "first = not reading.size_bytes",
                "first = True",
            ),
        ),
        SOON,
    ),
    Mutant(
        "a fetch waits for nothing but the first byte",
        "min_bytes: a reader of little asks without end",
        (
            Change(
                "broker.api.fetching.fetch_attempt:FetchAttempt.enough",
                "reading.size_bytes >= self._min_bytes",
                "reading.size_bytes > 0",
            ),
        ),
        SOON,
    ),
)
