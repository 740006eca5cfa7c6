"""The rules for members of classic groups: generations only grow, and an old one commits nothing.

Groups that members of newer protocols have come to are left out: their coordinator assigns, no member leads, and behind
them a classic group begins anew.
"""

from collections import defaultdict

from protocol.errors import ErrorCode
from tests.opinion.evidence import Evidence
from tests.opinion.trace import Exchange

STRANGERS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
"""What they want changes nothing."""
OF_NEWER_PROTOCOLS = ("ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "ShareGroupHeartbeat")
BY_MEMBERS = ("Heartbeat", "SyncGroup", "OffsetCommit", "TxnOffsetCommit")


Begun = list[tuple[int, int]]
"""(tick, generation): by then it had begun for good."""


def check(evidence: Evidence) -> None:
    """All rules of this file."""
    if evidence.circumstances.forgets_groups:
        return
    moved = {exchange.request.group_id for exchange in evidence.of(*OF_NEWER_PROTOCOLS)}
    joins: dict[str, list[Exchange]] = defaultdict(list)
    begun: dict[str, Begun] = defaultdict(list)
    for exchange in evidence.of("JoinGroup", "SyncGroup"):
        if exchange.response is None or exchange.response.error_code != ErrorCode.NONE:
            continue
        group = exchange.request.group_id
        if group in moved:
            continue
        if exchange.api == "SyncGroup":
            begun[group].append((exchange.received, exchange.request.generation_id))
        else:
            joins[group].append(exchange)
            if not evidence.circumstances.restarts:  # a generation without assignments does not survive one
                begun[group].append((exchange.received, exchange.response.generation_id))
    for group, found in joins.items():
        _check_joins(evidence, found, begun[group])
    for exchange in evidence.of(*BY_MEMBERS):
        if exchange.request.group_id not in moved and exchange.response is not None and _generation(exchange) >= 0:
            _check_not_old(evidence, exchange, begun[exchange.request.group_id])
    _check_assignments(evidence, moved)


def _check_joins(evidence: Evidence, joins: list[Exchange], begun: Begun) -> None:
    """What all members of a generation are told is the same; a later one has a higher number. A static member that
    comes back gets a new member id in the same generation, and may be its leader."""
    said: dict[int, tuple[object, ...]] = {}
    lists: dict[int, set[str]] = {}
    static = any(one.request.group_instance_id for one in joins)
    for one in joins:
        answer = one.response
        told = ("" if static else answer.leader, answer.protocol_name)
        if not evidence.circumstances.restarts and said.setdefault(answer.generation_id, told) != told:
            evidence.object("group.generation", one, f"generation {answer.generation_id} has two leaders or protocols")
        members = [member.member_id for member in answer.members]
        for_good = any(tick < one.sent and number == answer.generation_id for tick, number in begun)
        known = lists.get(answer.generation_id, set(members))
        if members and for_good and not static and known != set(members):
            evidence.object("group.members", one, f"generation {answer.generation_id} has two lists of members")
        if members:
            lists[answer.generation_id] = set(members)
        leads = answer.leader == answer.member_id and not static
        if len(set(members)) != len(members) or (leads and answer.member_id not in members):
            evidence.object("group.members", one, f"members {members} for {answer.member_id}")
        if later := [number for tick, number in begun if tick < one.sent and number > answer.generation_id]:
            evidence.object("group.generation", one, f"{answer.generation_id}, after {max(later)} had begun")


def _generation(exchange: Exchange) -> int:
    request = exchange.request
    found = getattr(request, "generation_id", None)
    return int(request.generation_id_or_member_epoch if found is None else found)


def _is_taken(exchange: Exchange) -> bool:
    answer = exchange.response
    if exchange.api in ("Heartbeat", "SyncGroup"):
        return bool(answer.error_code == ErrorCode.NONE)
    return any(one.error_code == ErrorCode.NONE for topic in answer.topics for one in topic.partitions)


def _check_not_old(evidence: Evidence, exchange: Exchange, begun: Begun) -> None:
    """Nobody is heard in a generation that had certainly ended."""
    generation = _generation(exchange)
    if exchange.api == "Heartbeat" and evidence.circumstances.restarts:
        return  # a coordinator that loads says yes to all of them
    later = [number for tick, number in begun if tick < exchange.sent and number > generation]
    if later and _is_taken(exchange):
        evidence.object("group.fenced", exchange, f"taken in generation {generation}, after {max(later)} had begun")


def _check_assignments(evidence: Evidence, moved: set[str]) -> None:
    """A member gets what the leader of its generation made of it."""
    made: dict[tuple[str, int, str], set[bytes]] = defaultdict(set)
    for exchange in evidence.of("SyncGroup"):
        request, answer = exchange.request, exchange.response
        for one in request.assignments if answer is None or answer.error_code not in STRANGERS else ():
            made[request.group_id, request.generation_id, one.member_id].add(bytes(one.assignment))
    for exchange in evidence.of("SyncGroup"):
        request, answer = exchange.request, exchange.response
        if answer is None or answer.error_code != ErrorCode.NONE or request.group_instance_id:
            continue
        if request.group_id in moved:
            continue
        allowed = made[request.group_id, request.generation_id, request.member_id] or {b""}
        if bytes(answer.assignment) not in allowed:
            evidence.object("group.assignment", exchange, f"{request.member_id} has what nobody assigned to it")
