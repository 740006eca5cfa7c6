"""A record of a share group is one member's at a time, is settled once, and is not lost (KIP-932)."""

from collections.abc import Iterator

from broker.partitions.share.states import AcknowledgeType
from tests.simulation.history import Handing, History, Place, Saying

SETTLING = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
ENDING = (*SETTLING, AcknowledgeType.GAP)
"""What is no record is done with, too."""
TOPIC = "a"


def delivered_again(history: History) -> Iterator[str]:
    """Who asks for records after it was answered that one is accepted, or rejected, is not handed that one."""
    settled: dict[tuple[Place, int], Saying] = {}
    for one in history.sayings:
        if one.kind in SETTLING and one.kept_at is not None:
            settled.setdefault((one.handing.place, one.offset), one)
    for handing in history.handings:
        for offset in handing.offsets:
            before = settled.get((handing.place, offset))
            if before is not None and before.kept_at is not None and before.kept_at < handing.sent_at:
                yield (
                    f"{handing.place}@{offset} is handed to {handing.member}, though {before.handing.member} was told"
                    " that it is settled"
                )


def held_at_once(history: History) -> Iterator[str]:
    """What a member has said of a record, and was not refused, shows that it was its own from when it was handed it to
    when it said so: nobody else was handed it in between. What is said of a record that is settled shows nothing: that
    is passed over."""
    handed: dict[tuple[Place, int], list[Handing]] = {}
    for handing in history.handings:
        for offset in handing.offsets:
            handed.setdefault((handing.place, offset), []).append(handing)
    settled: dict[tuple[Place, int], Saying] = {}
    starts: dict[Place, int] = {}
    for one in history.sayings:  # in the order in which they were sent
        if one.kept_at is None and (one.kind not in ENDING or one.refused):
            continue
        mine, where = one.handing, (one.handing.place, one.offset)
        before = settled.get(where)
        if one.kind in ENDING:
            settled.setdefault(where, one)
        if one.kept_at is None or (before is not None and before.handing is not mine):
            continue
        if mine.place not in starts:
            starts[mine.place] = max(history.told_start(mine.place), history.unknown_trims.get(mine.place, 0))
        if one.offset < starts[mine.place]:
            continue
        for other in handed[where]:
            if other.member != mine.member and mine.heard_at < other.sent_at and other.heard_at < one.sent_at:
                yield f"{mine.place}@{one.offset} is handed to {other.member} while {mine.member} has it"


def lost(history: History) -> Iterator[str]:
    """When all is over, each record that the group may see was accepted or rejected by somebody, who need not have been
    answered; whoever came last accepted what was left."""
    if not history.shares:
        return
    settled = {(one.handing.place, one.offset) for one in history.sayings if one.kind in SETTLING and not one.refused}
    for place, final in history.final.items():
        if place[0] != TOPIC:
            continue
        # A leader that had begun to delete, and died before that was written down, hands out nothing before there.
        start = max(history.told_start(place), history.unknown_trims.get(place, 0))
        shown = final.committed if history.shares == "committed" else final.everything
        for offset, number in shown:
            if offset >= max(start, final.log_start_offset) and (place, offset) not in settled:
                yield f"{place}@{offset}, record {number}, was settled by nobody, and is handed to nobody"
