"""Groups of the consumer protocol (KIP-848): what coordinators of others got wrong (coordinator/groups/consumer)."""

from tests.mutants.mutant import Change, Mutant

HEARTBEATS = "coordinator.groups.consumer.heartbeats"
RECONCILING = "coordinator.groups.consumer.reconciling:Reconciliation"
GROUP = "coordinator.groups.consumer.group:ConsumerGroup"
PROTOCOL = "coordinator.groups.consumer.protocol:ConsumerProtocol"
COMMITS = "coordinator.groups.commits:validate_commit_to_members"
READING = "coordinator.groups.consumer.log_reading:ConsumerGroups"
LEDGER = "coordinator.groups.logged:GroupLedger"
UNIT = "unit/consumer_groups/test_"
BEATS, LOG, REPLAYED = f"{UNIT}heartbeats.py", f"{UNIT}log_of_groups.py", f"{UNIT}group_as_replayed.py"


def _mutant(name: str, imitates: str, change: tuple[str, str, str], *tests: str, unseen: str = "") -> Mutant:
    return Mutant(name, imitates, (Change(*change),), tests, unseen=unseen)


OWNERS = (
    _mutant(
        "a partition is free although somebody has it",
        "KIP-848: two members of a consumer group own a partition",
        (f"{RECONCILING}._towards_target", "if index in given_back or not self.is_owned(topic_id, index)", "if True"),
        f"{BEATS}::test_a_partition_is_given_on_only_when_it_was_given_back",
    ),
    _mutant(
        "what is being given back is nobody's",
        "KAFKA-16147: the next owner reads while the former one still does",
        (
            f"{GROUP}.put",
            "for partitions in (member.assigned, member.revoking):",
            "for partitions in (member.assigned,):",
        ),
        f"{BEATS}::test_a_partition_is_given_on_only_when_it_was_given_back",
    ),
    _mutant(
        "a partition that goes back to its owner is nobody's",
        "KAFKA-16147: what is being given back is meant for the same member again, and its owner is forgotten",
        (
            f"{GROUP}.put",
            "self._disown(before)\n        self._count",
            "self._count",
        ),
        REPLAYED,
        f"{UNIT}edges.py",
    ),
    _mutant(
        "silence is taken for giving back",
        "KAFKA-16249: a heartbeat without partitions says nothing of them",
        (
            f"{RECONCILING}._owns_any",
            "if self.owned is None:\n        return True",
            "if self.owned is None:\n        return False",
        ),
        f"{UNIT}reconciling.py::test_it_gives_back_first_and_gets_nothing_until_then",
    ),
    _mutant(
        "a member goes to the target before it has given back",
        "KIP-848: its epoch says that it has given back what it was to lose",
        (f"{RECONCILING}._towards_target", "if revoking and self._owns_any(revoking):", "if False:"),
        f"{UNIT}reconciling.py::test_it_gives_back_first_and_gets_nothing_until_then",
    ),
    _mutant(
        "what a member no longer wants stays until there is a target",
        "KIP-848: a member that is subscribed to something else goes on with what it had",
        (
            f"{RECONCILING}.next_of",
            "return self._without_unwanted(member) if self.subscription_changed else member\n"
            "        case MemberState.UNREVOKED_PARTITIONS:",
            "return member\n        case MemberState.UNREVOKED_PARTITIONS:",
        ),
        f"{BEATS}::test_what_a_member_no_longer_wants_is_taken_away_before_there_is_a_target",
    ),
)

EPOCHS = (
    _mutant(
        "a fenced member cannot join again",
        "KAFKA-19233: it is fenced until its session is over",
        (f"{HEARTBEATS}:ConsumerHeartbeats.member", "if not joins:\n        # One", "if True:\n        # One"),
        f"{BEATS}::test_who_was_fenced_joins_again_under_its_id_whatever_it_had",
    ),
    _mutant(
        "an epoch that nobody was given passes",
        "KIP-848: a member that is ahead of its coordinator has seen what was lost",
        (f"{HEARTBEATS}:_check_epoch", "or said.epoch == member.epoch:", "or said.epoch >= member.epoch:"),
        "scenario Requests that are wrong in themselves",
    ),
    _mutant(
        "an answer that was lost fences the member",
        "KIP-848: it comes with the epoch before, and gives everything up",
        (
            f"{HEARTBEATS}:_check_epoch",
            "elif said.epoch == member.previous_epoch and _is_within(said.owned, member):",
            "elif False:",
        ),
        f"{BEATS}::test_a_lost_answer_is_given_again",
    ),
    _mutant(
        "the epoch before will do, whatever the member owns",
        "KIP-848: a zombie that has what was taken from it goes on",
        (f"{HEARTBEATS}:_is_within", "if owned is None:\n        return False\n    return all(", "return True or all("),
        f"{BEATS}::test_a_lost_answer_is_given_again",
    ),
    _mutant(
        "a group keeps its epoch when a member goes",
        "KIP-848: what a member had stays without an owner",
        ("coordinator.groups.consumer.fencing:records_without", "group.epoch + 1", "group.epoch"),
        f"{BEATS}::test_who_leaves_leaves_its_partitions_to_others",
    ),
    _mutant(
        "a topic that grows is not seen",
        "KIP-848: nobody reads its new partitions",
        (
            "coordinator.groups.consumer.soft_state:SoftState.has_seen",
            "seen is not None and seen[0] == revision and",
            "seen is not None and",
        ),
        f"{BEATS}::test_topics_that_come_grow_and_go_are_seen_with_the_next_heartbeat",
    ),
    _mutant(
        "the epoch of a target is that of before",
        "KAFKA-20442: members are reconciled to a target that is none",
        (
            "coordinator.groups.consumer.targets:records_of_targets",
            "assignment_epoch(group.group_id, epoch, now_ms)",
            "assignment_epoch(group.group_id, epoch - 1, now_ms)",
        ),
        f"{UNIT}targets.py::test_only_targets_that_have_changed_are_written_and_the_epoch_last",
    ),
)

COMMITS_OF_MEMBERS = (
    _mutant(
        "a former member commits",
        "KIP-848: a zombie moves the offsets of who reads its partitions now",
        (
            COMMITS,
            "if member is None:\n        return ErrorCode.UNKNOWN_MEMBER_ID",
            "if member is None:\n        return ErrorCode.NONE",
        ),
        "scenario A member that has gone commits nothing",
        "simulation 150",
    ),
    _mutant(
        "a member commits what is another's by now",
        "KAFKA-20066, KIP-1251: the epoch of the commit is older than the assignment",
        (COMMITS, "all(since is not None and commit.generation >= since for since in sinces)", "True"),
        f"{BEATS}::test_the_partition_of_a_commit_may_be_older_than_the_member_is",
    ),
    _mutant(
        "commits of the epoch before are refused",
        "KAFKA-20066, KIP-1251: a member is fenced by an epoch that it has not heard of yet",
        (COMMITS, "if commit.generation < member.epoch and all(", "if False and all("),
        f"{BEATS}::test_the_partition_of_a_commit_may_be_older_than_the_member_is",
    ),
    _mutant(
        "whoever is no member commits to a group that has some",
        "KIP-848: an administrator resets offsets under the members",
        (COMMITS, "if commit.generation < 0 and not group.members:", "if commit.generation < 0:"),
        "scenario Offsets of a consumer group",
    ),
    _mutant(
        "a stale transaction is told what its producer does not know",
        "KAFKA-20444: STALE_MEMBER_EPOCH before TxnOffsetCommit v6 kills the producer",
        (COMMITS, "if transactional or _is_classic(member) else", "if _is_classic(member) else"),
        "scenario Offsets of a consumer group in transactions",
    ),
    _mutant(
        "offsets are fetched with any epoch",
        "KAFKA-14499: a member that was fenced begins where its successor is",
        ("coordinator.groups.commits:validate_fetch", "if epoch == member.epoch:", "if True:"),
        "scenario Offsets of a consumer group",
    ),
    _mutant(
        "offsets of what an expression stands for can be deleted",
        "KAFKA-17593: subscriptions by expression are no subscriptions",
        (f"{GROUP}.is_subscribed_to", "or any(topic in one.topics for one in self.resolved.values())", ""),
        REPLAYED,
        f"{UNIT}members.py",
    ),
)

AFTER_A_RESTART = (
    _mutant(
        "sessions of loaded members never end",
        "KIP-848: who died while the coordinator was down keeps its partitions for ever",
        (f"{PROTOCOL}.restore", "self._expect(group.group_id, member.member_id, now_ms)", "pass"),
        f"{BEATS}::test_members_live_on_after_a_restart_and_have_a_session_to_say_so",
    ),
    _mutant(
        "who is to give back has all the time in the world after a restart",
        "KAFKA-16249: the rebalance timeout is not begun again when the log is loaded",
        (f"{PROTOCOL}.restore", "if member.state is MemberState.UNREVOKED_PARTITIONS:", "if False:"),
        f"{BEATS}::test_a_member_that_is_to_give_back_is_not_forgotten_by_a_restart",
    ),
    _mutant(
        "the epochs of assignments are lost in the log",
        "KIP-1251: after a restart, commits of before are refused or taken by chance",
        (
            "coordinator.groups.consumer.log_reading:_read_partitions",
            "if epochs is None or len(epochs) != len(topic.partitions):",
            "if True:",
        ),
        f"{LOG}::test_what_is_written_is_read_again",
    ),
    _mutant(
        "an earlier owner takes the partition of a later one with it",
        "KAFKA-19862: the log is loaded while it is compacted",
        (f"{GROUP}._disown", "if owners.get(partition) == member.member_id:", "if partition in owners:"),
        f"{REPLAYED}::test_a_partition_has_the_owner_that_was_named_last",
        unseen="a log that was compacted up to one record: no client can make it so",
    ),
    _mutant(
        "the tombstone of nothing makes a group",
        "KAFKA-17306: of a group that was deleted compaction has left the last record",
        (f"{READING}._group", "if group is None and value is not None:", "if group is None:"),
        f"{LOG}::test_tombstones_of_nothing_make_no_group",
        unseen="tombstones without what was before them: what compaction leaves, after a day",
    ),
    _mutant(
        "offsets that come first make a classic group beside the other",
        "KAFKA-17306, KAFKA-20254: a group has offsets of before it changed its protocol",
        (f"{LEDGER}._replay_offset", "(self.groups, self.consumers.by_id, self.streams.by_id)", "(self.groups,)"),
        "scenario A group is not deleted while it is used, whatever protocol its members speak",
    ),
    _mutant(
        "the classic group of the offsets of before stays beside the consumer group",
        "KAFKA-20254: where the tombstone between them is gone, the group does not load",
        (f"{READING}._group", "self._on_first(group_id)", "pass"),
        f"{LOG}::test_offsets_of_before_leave_no_classic_group_beside",
        unseen="offsets in front of a consumer group without a tombstone between: what compaction leaves, after a day",
    ),
    _mutant(
        "the tombstone of a group comes before those of its members",
        "KAFKA-17306: what comes behind it makes the group anew when it is loaded",
        (
            "coordinator.groups.consumer.fencing:records_without",
            "records += member_tombstones(group.group_id, member.member_id)",
            "records[:0] = member_tombstones(group.group_id, member.member_id)[::-1]",
        ),
        "scenario A partition that is being given back is meant for the same member again",
    ),
    _mutant(
        "a deleted group leaves its members in the log",
        "KAFKA-17306: a group of the same name begins with the members of the one before",
        (
            "coordinator.groups.consumer.log_entries:consumer_group_tombstones",
            "yield from (regex_tombstone(group_id, regex) for regex in group.resolved)",
            "yield from ()",
        ),
        f"{LOG}::test_the_end_of_a_group_says_all_that_it_had_and_itself_last",
        f"{LOG}",
    ),
)

MUTANTS = (*OWNERS, *EPOCHS, *COMMITS_OF_MEMBERS, *AFTER_A_RESTART)
