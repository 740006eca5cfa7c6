"""Members of consumer groups (KIP-848): static ones, expressions, and groups between the two protocols."""

from tests.mutants.mutant import Change, Mutant

HEARTBEATS = "coordinator.groups.consumer.heartbeats"
EXPRESSIONS = "coordinator.groups.consumer.expressions:Expressions"
CLASSIC = "coordinator.groups.consumer.classic_members"
MIGRATION = "coordinator.groups.migration:Migration"
UNIT = "unit/consumer_groups/test_"
MEMBERS, REPLAYED, CHANGING = f"{UNIT}members.py", f"{UNIT}group_as_replayed.py", f"{UNIT}changing_protocols.py"


def _mutant(name: str, imitates: str, change: tuple[str, str, str], *tests: str, unseen: str = "") -> Mutant:
    return Mutant(name, imitates, (Change(*change),), tests, unseen=unseen)


STATIC = (
    _mutant(
        "a static member that comes back is a stranger",
        "KAFKA-14516: what it had goes to others, and the group rebalances",
        (
            f"{HEARTBEATS}:ConsumerHeartbeats._static_member",
            "target = group.target_of(known.member_id, instance_id)",
            "target: Assignment = {}",
        ),
        "scenario A static member comes back to a group that is full",
    ),
    _mutant(
        "a static member takes the place of one that is there",
        "KAFKA-14516: two processes with one instance id fence each other for ever",
        (
            f"{HEARTBEATS}:ConsumerHeartbeats._static_member",
            "and known.epoch != LEAVING_STATIC_EPOCH:",
            "and False:",
        ),
        f"{MEMBERS}::test_a_static_member_takes_its_own_place_again",
    ),
    _mutant(
        "a static member of the consumer protocol waits for the classic one to leave",
        "KAFKA-17228: which never does",
        (
            f"{HEARTBEATS}:ConsumerHeartbeats._static_member",
            "if said.classic is None and known.classic is None and known.epoch",
            "if said.classic is None and known.epoch",
        ),
        "scenario A static member of the consumer protocol in the place of a classic one",
    ),
    _mutant(
        "a static member that is away holds on to what it was giving back",
        "KAFKA-20641: nobody gets it until the session is over",
        (
            "coordinator.groups.consumer.member:ConsumerMember.away",
            "assigned=assigned, revoking={})",
            "assigned=assigned)",
        ),
        f"{REPLAYED}::test_a_member_that_goes_away_for_a_while_keeps_what_it_has",
    ),
    _mutant(
        "who comes back may not commit what it read before",
        "KIP-1251: the epochs of a static member that went are those of another",
        (
            "coordinator.groups.consumer.member:ConsumerMember.away",
            "dict.fromkeys(of, 0)",
            "dict(of)",
        ),
        f"{MEMBERS}::test_who_comes_after_a_static_member_may_commit_what_it_read",
    ),
    _mutant(
        "a full group has no room for its own static member",
        "KAFKA-20601",
        (
            f"{HEARTBEATS}:ConsumerHeartbeats.check_room",
            " or group.static_member(instance_id) is not None",
            "",
        ),
        f"{MEMBERS}::test_a_static_member_comes_back_to_a_group_that_is_full",
    ),
    _mutant(
        "an administrator cannot remove members of the consumer protocol",
        "KAFKA-18188, KAFKA-18116",
        (
            f"{CLASSIC}:ClassicMembers._leaving",
            "return self._consumers.known(group, identity.member_id)",
            "return self._member(group, identity.member_id, None, -1)",
        ),
        f"{UNIT}classic_members.py::test_each_that_leaves_is_answered_and_whoever_may_is_gone",
    ),
)

BY_EXPRESSION = (
    _mutant(
        "an expression that is taken back changes nothing",
        "KAFKA-19899: the member goes on with topics that it does not want any more",
        (
            f"{EXPRESSIONS}.update",
            "return Changed.RESOLVED if old else Changed.UNRESOLVED, records",
            "return Changed.UNRESOLVED, records",
        ),
        "scenario Subscriptions by regular expression",
    ),
    _mutant(
        "what expressions stand for is not among the topics of the group",
        "KAFKA-18916: a topic that is found by an expression, and deleted or grown, changes nothing",
        ("coordinator.groups.consumer.targets:topics_wanted", "wanted |= resolved.topics", "pass"),
        f"{UNIT}targets.py::test_all_topics_that_anybody_wants",
    ),
    _mutant(
        "expressions are never looked at again for their age",
        "KAFKA-18961: topics that one may see only now are never found",
        (
            f"{EXPRESSIONS}._is_due",
            "or now_ms > last_ms + self._shard.settings.regex_refresh_interval_ms",
            "",
        ),
        "scenario An expression is looked at again for its age",
    ),
    _mutant(
        "new topics are not looked for",
        "KAFKA-17593: an expression stands for what it stood for at first",
        (
            f"{EXPRESSIONS}._is_due",
            "or self._shard.soft.creations_seen.get(group.group_id) != self._shard.topics.creations",
            "",
        ),
        f"{MEMBERS}::test_new_topics_are_looked_for_when_there_are_some_and_ten_seconds_have_gone_by",
    ),
    _mutant(
        "an expression that nobody asks for any more stays",
        "KAFKA-17593: it is looked for, and keeps offsets, for ever",
        ("coordinator.groups.consumer.fencing:records_without", "if regex not in asked]", "if False]"),
        "scenario Offsets of topics that an expression has found",
    ),
    _mutant(
        "an expression finds topics that the member may not see",
        "KAFKA-18813",
        (
            "broker.coordination.consumer_groups.expressions:ExpressionResolver._resolve",
            'lambda name: name if may_see(name) else ""',
            "lambda name: name",
        ),
        f"{UNIT}expressions.py::test_only_topics_that_the_one_who_asked_may_see_are_found",
        unseen="it asks as somebody who may see some topics only: stories have no users with rights",
    ),
    _mutant(
        "a classic member keeps the expression of the one whose place it takes",
        "KAFKA-19720: the group goes on with topics that nobody wants",
        (f"{CLASSIC}:_said", 'regex="",', "regex=None,"),
        "scenario A classic member in the place of one that asked by expression",
    ),
)

BETWEEN_PROTOCOLS = (
    _mutant(
        "a group stays a consumer group when its last one is replaced",
        "KAFKA-17317: a static member of the classic protocol takes its place",
        (f"{MIGRATION}.may_replace", "return alone and self._may_downgrade(len(group.members))", "return False"),
        f"{CHANGING}::test_a_classic_member_takes_the_place_of_the_last_one_of_the_consumer_protocol",
    ),
    _mutant(
        "a group that goes back does not share anew when a subscription has changed",
        "KAFKA-19546",
        (f"{CLASSIC}:ClassicMembers._join", "rebalance=stale)", "rebalance=False)"),
        f"{CHANGING}::test_a_classic_member_takes_the_place_of_the_last_one_of_the_consumer_protocol",
    ),
    _mutant(
        "a group that goes back does not share anew what the last one had",
        "KAFKA-16554: what it had has no owner",
        (f"{MIGRATION}.downgraded", "rebalance=True)", "rebalance=False)"),
        f"{MEMBERS}::test_a_group_moves_to_the_consumer_protocol_and_back_while_its_members_work",
    ),
    _mutant(
        "who waits in a group that moves is not told",
        "KAFKA-16832: its JoinGroup is never answered",
        (
            f"{MIGRATION}.let_go",
            "answer_join(member, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), outcome)",
            "pass",
        ),
        f"{MEMBERS}::test_members_that_wait_when_a_group_moves_are_told_to_come_again",
    ),
    _mutant(
        "members that come over have no session",
        "KIP-848: a classic member that died before it heard keeps its partitions",
        (
            f"{MIGRATION}.let_go",
            "self._shard.soft.expect(group_id, member.member_id, now_ms + member.session_timeout_ms)",
            "pass",
        ),
        "scenario A classic member that never hears that its group has moved",
    ),
    _mutant(
        "a group that comes over begins with the first epoch",
        "KIP-848: members of the generation before are fenced",
        (f"{MIGRATION}._as_consumer_group", "made.epoch = made.assignment_epoch = group.generation", "pass"),
        "scenario A group that comes over goes on with its generation",
    ),
    _mutant(
        "the classic group stays in the log when its group comes over",
        "KAFKA-16313: after a restart it is a classic group again",
        (
            f"{MIGRATION}.taken_over",
            "outcome.records = [group_tombstone(group_id), *whole_group(made)]",
            "outcome.records = [*whole_group(made)]",
        ),
        f"{CHANGING}::test_a_classic_group_is_written_as_the_consumer_group_that_it_becomes",
    ),
)

MUTANTS = (*STATIC, *BY_EXPRESSION, *BETWEEN_PROTOCOLS)
