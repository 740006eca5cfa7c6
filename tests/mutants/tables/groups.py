"""Members and generations (coordinator/groups)."""

from tests.mutants.mutant import Change, Mutant

CLASSIC = "coordinator.groups.classic"
REBALANCE = "coordinator.groups.rebalance:Rebalance"
ANSWERS = "coordinator.groups.answers"
RULES = "unit/groups/test_commit_rules.py"
SYNCING = "unit/groups/test_syncing.py"
REBALANCING = "unit/groups/test_rebalance.py"
STATIC = "unit/groups/test_static_members.py"

MUTANTS = (
    Mutant(
        "two members own a partition",
        "every member is told the assignment of the first",
        (
            Change(
                f"{REBALANCE}._assigned",
                "synced(group, made.group.members[member.member_id].assignment)",
                "synced(group, next(iter(made.group.members.values())).assignment)",
            ),
        ),
        (f"{SYNCING}::test_followers_wait_for_the_leader",),
    ),
    Mutant(
        "a generation keeps its number",
        "an assignment of before the rebalance passes for one of after it",
        (Change(f"{REBALANCE}._begin_generation", "group.generation += 1", "group.generation += 0"),),
        (f"{REBALANCING}::test_a_new_member_makes_one_rebalance",),
    ),
    Mutant(
        "a rebalance does not wait for all members",
        "KIP-134: members are thrown out by whoever comes first",
        (
            Change(
                f"{REBALANCE}.complete_if_joined",
                "and not group.is_initial and group.all_joined:",
                "and not group.is_initial:",
            ),
        ),
        (f"{REBALANCING}::test_a_new_member_makes_one_rebalance", "unit/groups/test_rebalance.py"),
    ),
    Mutant(
        "a commit of a stale generation is accepted",
        "KIP-447, I41: a zombie of the group moves the offsets back",
        (
            Change(
                "coordinator.groups.commits:validate_commit",
                "if commit.generation != group.generation:",
                "if False:",
            ),
        ),
        (f"{RULES}::test_wrong_identities_are_refused_and_stage_nothing",),
    ),
    Mutant(
        "a stale generation may heartbeat",
        "a member that missed a rebalance never learns of it",
        (Change(f"{CLASSIC}:ClassicProtocol._beat", "if request.generation_id != group.generation:", "if False:"),),
        (REBALANCING, "unit/groups"),
    ),
    Mutant(
        "a stale generation is told the assignment of another",
        "two owners within one rebalance",
        (Change(f"{CLASSIC}:_validate_sync", "if request.generation_id != group.generation:", "if False:"),),
        (f"{SYNCING}::test_wrong_identities",),
    ),
    Mutant(
        "static members are not fenced",
        "KIP-345: two processes with one instance id",
        (Change(f"{ANSWERS}:validate_member", "if known != member_id:", "if False:"),),
        (f"{STATIC}::test_the_one_that_was_replaced_is_fenced",),
    ),
    Mutant(
        "a member that is not in the group is served",
        "I41, KAFKA-18060",
        (
            Change(
                f"{ANSWERS}:validate_member",
                "return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID",
                "return ErrorCode.NONE",
            ),
        ),
        (f"{RULES}::test_wrong_identities_are_refused_and_stage_nothing",),
    ),
    Mutant(
        "sessions never end",
        "a dead member keeps its partitions",
        (Change(f"{REBALANCE}.session_is_over", "self.drop(group, member, outcome)", "return"),),
        (f"{REBALANCING}::test_a_session_ends_without_heartbeats",),
    ),
    Mutant(
        "a static member that came back has no session",
        "KIP-345: if it dies then, it keeps its partitions for ever",
        (
            Change(
                "coordinator.groups.joining:Joining._replace_static",
                "self._rebalance.beat(group, member, join.now_ms)",
                "pass",
            ),
        ),
        (f"{STATIC}::test_a_static_member_that_came_back_has_a_session",),
    ),
)
