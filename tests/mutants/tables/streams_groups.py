"""Streams groups (KIP-1071), some of it seen in Kafka while they were made (coordinator/groups/streams)."""

from tests.mutants.mutant import Change, Mutant

HEARTBEATS = "coordinator.groups.streams.heartbeats:StreamsHeartbeats"
RECONCILING = "coordinator.groups.streams.reconciling:Reconciliation"
GROUP = "coordinator.groups.streams.group:StreamsGroup"
PROTOCOL = "coordinator.groups.streams.protocol:StreamsProtocol"
CONFIGURED = "coordinator.groups.streams.configured"
STICKY = "coordinator.groups.assignors.sticky"
READING = "coordinator.groups.streams.log_reading"
UNIT = "unit/streams_groups/test_"
MEMBERS, SHARES, TOPICS = f"{UNIT}streams_members.py", f"{UNIT}sticky.py", f"{UNIT}configured.py"


def _mutant(name: str, imitates: str, change: tuple[str, str, str], *tests: str, unseen: str = "") -> Mutant:
    return Mutant(name, imitates, (Change(*change),), tests, unseen=unseen)


TASKS = (
    _mutant(
        "a task runs twice",
        "KIP-1071: it is given to the next before the former has given it back",
        (
            f"{RECONCILING}._is_free",
            "if runner is not None and (role is TaskRole.ACTIVE or runner.process_id == process_id):",
            "if runner is not None and role is not TaskRole.ACTIVE and runner.process_id == process_id:",
        ),
        f"{MEMBERS}::test_a_task_is_given_to_its_next_member_when_the_former_has_given_it_back",
    ),
    _mutant(
        "a task is run beside its copy in one process",
        "KIP-1071: two threads have the folder of one state",
        (
            f"{RECONCILING}._is_free",
            "return not self.group.keeps_copy(process_id, subtopology, partition)",
            "return True",
        ),
        f"{MEMBERS}::test_a_copy_becomes_active_when_it_is_given_back_as_a_copy",
    ),
    _mutant(
        "silence of a thread is taken for giving back",
        "KIP-1071: a heartbeat without tasks says nothing of them",
        (
            f"{RECONCILING}._owns_any",
            "(self.owned is None or tasks.overlaps(self.owned))",
            "(self.owned is not None and tasks.overlaps(self.owned))",
        ),
        MEMBERS,
    ),
    _mutant(
        "copies that are gone still stand in the way",
        "KIP-1071: a task is never free again in a process that kept a copy",
        (
            f"{GROUP}._disown",
            "count = copies.pop(member.process_id) - 1",
            "count = copies.pop(member.process_id)",
        ),
        f"{MEMBERS}::test_a_copy_becomes_active_when_it_is_given_back_as_a_copy",
    ),
    _mutant(
        "a copy has no place where the first process has something of it",
        "KAFKA-20899: the assignor looks at one process and gives up",
        (
            f"{STICKY}:_ByLoad.give",
            "while self._heap and task in self._heap[0][2].tasks:\n"
            "        passed.append(heappop(self._heap))\n"
            "    if self._heap:",
            "if self._heap and task not in self._heap[0][2].tasks:",
        ),
        f"{SHARES}::test_copies_go_to_other_processes_and_stay_there",
        SHARES,
    ),
    _mutant(
        "tasks go to where they never were",
        "KAFKA-17125: the assignor is not sticky, and every rebalance restores all state",
        (f"{STICKY}:_Assignment._stays_active", "if member_id is None or", "if True or member_id is None or"),
        f"{SHARES}::test_what_moves_is_no_more_than_it_must",
    ),
    _mutant(
        "stateless tasks are kept warm",
        "KAFKA-17125: copies of nothing, and a limit of tasks that they use up",
        ("coordinator.groups.streams.targets:new_targets", "if one.changelogs)", ")"),
        "scenario Copies of state move with the settings of a group",
    ),
)

EPOCHS = (
    _mutant(
        "a fenced thread cannot join again",
        "KAFKA-19233: it is fenced until its session is over",
        (f"{HEARTBEATS}._member", "if not joins:\n        _check_epoch(member, said)", "_check_epoch(member, said)"),
        "scenario What a member says of itself changes the epoch of its group",
    ),
    _mutant(
        "a thread that was fenced goes on",
        "KIP-1071: its epoch is not compared",
        (f"{HEARTBEATS}._member", "if not joins:\n        _check_epoch(member, said)", "pass"),
        "scenario A task is given to its next member when the former has given it back",
    ),
    _mutant(
        "an answer that was lost fences the thread",
        "KIP-1071: it comes with the epoch before, closes all tasks, and restores them",
        (
            "coordinator.groups.streams.heartbeats:_check_epoch",
            "elif said.epoch == member.previous_epoch and _is_within(said.owned, member.assigned):",
            "elif False:",
        ),
        "scenario A task is given to its next member when the former has given it back",
    ),
    _mutant(
        "a group of threads keeps its epoch when one goes",
        "KIP-1071: its tasks run nowhere",
        (f"{PROTOCOL}._fence", "epoch=group.epoch + 1", "epoch=group.epoch"),
        f"{MEMBERS}::test_a_task_of_a_member_that_is_gone_is_free",
    ),
    _mutant(
        "a former thread commits",
        "KAFKA-19779: a zombie moves the offsets of a task that another runs",
        (
            "coordinator.groups.commits:_epoch_of",
            "return None if subtopology is None else group.members[member_id].epoch_of(subtopology, offset.partition)",
            "return 0",
        ),
        "scenario Who may commit offsets in a streams group",
    ),
    _mutant(
        "commits of a thread are refused while its epoch moves",
        "KAFKA-19779, KIP-1251: exactly-once tasks are fenced by every rebalance",
        (
            "coordinator.groups.streams.member:StreamsMember.epoch_of",
            "epoch = self.assigned.active.get(subtopology_id, {}).get(partition)",
            "epoch = None",
        ),
        "scenario Who may commit offsets in a streams group",
    ),
)

TOPICS_OF_APPLICATIONS = (
    _mutant(
        "a group whose topics are there is not ready",
        "KAFKA-19661: described as NotReady while all its tasks run",
        (f"{HEARTBEATS}._group_epoch", "step.topology.epoch if step.configured.is_ready else -1", "-1"),
        "scenario Threads have a session to show up after a crash",
    ),
    _mutant(
        "tasks are given out before the internal topics are there",
        "KIP-1071: threads begin, and fail",
        (
            f"{CONFIGURED}:_with_internal_topics",
            "return ConfiguredTopology({}, {}, tuple(to_create), problem)",
            "return ConfiguredTopology(tasks, wanted, tuple(to_create))",
        ),
        TOPICS,
    ),
    _mutant(
        "a changelog is too small",
        "KIP-1071: it has the partitions of the smallest source, not of the largest",
        (
            f"{CONFIGURED}:_task_count",
            "return max(counts[name] for name in read)",
            "return min(counts[name] for name in read)",
        ),
        f"{TOPICS}::test_a_subtopology_has_a_task_for_each_partition_of_its_largest_source",
    ),
    _mutant(
        "repartition topics of a join are as large as they like",
        "KIP-1071: copartitioned topics differ, and pairs never meet",
        (f"{CONFIGURED}:_copartition", "counts.update(dict.fromkeys(internal, wanted))", "pass"),
        f"{TOPICS}::test_copartitioned_topics_have_as_many_partitions",
    ),
    _mutant(
        "internal topics of another size are taken",
        "KIP-1071: state is written to partitions that no task has",
        (f"{CONFIGURED}:_with_internal_topics", "elif present.partition_count != wanted[name]:", "elif False:"),
        f"{TOPICS}",
    ),
    _mutant(
        "internal topics are made without their settings",
        "KIP-1071: a changelog that is not compacted keeps everything for ever",
        (
            f"{CONFIGURED}:_with_internal_topics",
            "topic.replication_factor, topic.configs)",
            "topic.replication_factor, ())",
        ),
        f"{UNIT}streams_handlers.py::test_internal_topics_are_made_as_they_are_wanted",
    ),
    _mutant(
        "another topology is taken for the one of the group",
        "KAFKA-18613: two versions of an application share their tasks by chance",
        (
            f"{HEARTBEATS}._with_topology",
            "elif declared is not None and declared.epoch >= known.epoch and not declared.is_same_as(known):",
            "elif False:",
        ),
        "scenario A topology does not change as long as there is a group",
    ),
    _mutant(
        "a thread of an old version is not told",
        "KIP-1071: it waits for tasks that it never gets, and nobody knows why",
        (f"{HEARTBEATS}._with_topology", "if member.topology_epoch < known.epoch:", "if False:"),
        "scenario Statuses come in their order; a shutdown is known until the group is empty",
    ),
)

GROUPS = (
    _mutant(
        "a shutdown is known for ever",
        "KIP-1071: an application that was stopped can never begin again",
        (f"{PROTOCOL}.follow", "self._soft.shutdowns.pop(group_id, None)", "pass"),
        f"{MEMBERS}::test_a_shutdown_is_known_until_the_group_is_empty",
    ),
    _mutant(
        "only who asked for it hears of a shutdown",
        "KIP-1071: the rest of the application goes on",
        (f"{PROTOCOL}._shutdown", "self._soft.shutdowns[group.group_id] = member_id", "pass"),
        f"{MEMBERS}::test_a_shutdown_is_known_until_the_group_is_empty",
    ),
    _mutant(
        "a group waits for its first threads for ever",
        "KIP-1071: the delay before the first assignment has no end",
        (
            f"{PROTOCOL}.expire",
            "outcome.records = self._heartbeats.delayed_target(group, now_ms)",
            "self._soft.delay(key.group_id, now_ms + 3_600_000)",
        ),
        f"{MEMBERS}::test_the_first_tasks_wait_for_more_members",
    ),
    _mutant(
        "where a state can be asked for is told once and never again",
        "KAFKA-19135: queries go to the process that had it",
        (f"{PROTOCOL}._endpoint_epoch", "epoch += 1\n", "epoch += 0\n"),
        f"{MEMBERS}::test_members_hear_of_each_others_endpoints_when_something_has_changed",
    ),
    _mutant(
        "the classic group stays in the log when an application changes its protocol",
        "KAFKA-20254: after a restart the group does not load, or is a classic one",
        (f"{PROTOCOL}._group", "records.append(group_tombstone(group_id))", "pass"),
        "scenario What a classic group leaves in the log when it becomes a streams group",
    ),
    _mutant(
        "an application joins a group of consumers",
        "KAFKA-19570: a group with members changes its protocol under them",
        (f"{PROTOCOL}._group", "if not joins or not may_replace:", "if not joins:"),
        "scenario Groups of other protocols, and a streams group",
    ),
    _mutant(
        "sessions of loaded threads never end",
        "KIP-1071: tasks of who died while the coordinator was down run nowhere",
        (f"{PROTOCOL}.restore", "self._expect(group.group_id, member.member_id, now_ms)", "pass"),
        MEMBERS,
    ),
    _mutant(
        "a thread that is to give back has all the time in the world after a restart",
        "KIP-1071: the rebalance timeout is not begun again when the log is loaded",
        (f"{PROTOCOL}.restore", "if member.state is MemberState.UNREVOKED_TASKS:", "if False:"),
        f"{MEMBERS}::test_a_member_that_is_to_give_back_is_not_forgotten_by_a_restart",
    ),
    _mutant(
        "tasks that are being given back are lost in the log",
        "KAFKA-19862: after a restart they are free, and run twice",
        (
            f"{READING}:StreamsGroups._replay_current",
            "_read_active(read.active_tasks_pending_revocation, read.member_epoch)",
            "{}",
        ),
        MEMBERS,
    ),
    _mutant(
        "the tombstone of a thread that nobody knows makes it",
        "apache/kafka #18217: compaction has left the tombstone alone, and the group does not load",
        (
            f"{READING}:StreamsGroups._replay_member",
            "if (group := self.by_id.get(group_id)) is not None:",
            "if (group := self._made(group_id)) is not None:",
        ),
        f"{MEMBERS}::test_tombstones_of_nothing_make_no_group",
        unseen="tombstones without what was before them: what compaction leaves, after a day",
    ),
)

MUTANTS = (*TASKS, *EPOCHS, *TOPICS_OF_APPLICATIONS, *GROUPS)
