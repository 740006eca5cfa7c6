"""StreamsGroupHeartbeat: a member comes, says what its application is and what it runs, and is told what it is to run.

Four steps: the member; the application over the topics that there are; the target of the group, if it is older than the
group; the member on its way to the target. What follows for others they hear with their own heartbeats.
"""

from dataclasses import dataclass, field, replace

from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.streams.configured import ConfiguredTopology, Problem, Status
from coordinator.groups.streams.group import GroupFacts, StreamsGroup
from coordinator.groups.streams.log_entries import (
    current_assignment,
    group_facts,
    member_metadata,
    topology_declared,
)
from coordinator.groups.streams.member import HeldTasks, StreamsMember, TaskRole, Tasks
from coordinator.groups.streams.reconciling import Reconciliation
from coordinator.groups.streams.shard import StreamsShard
from coordinator.groups.streams.targets import STANDBY_REPLICAS, new_targets, records_of_targets
from coordinator.groups.streams.topology import Topology
from coordinator.machine import Record
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class StreamsSaid:
    """What a member says. None: as before."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    endpoint_epoch: int
    """Of what it knows of the endpoints of others."""
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    shuts_down: bool = False


@dataclass(slots=True)
class StreamsStep:
    """What a heartbeat has come to."""

    before: StreamsMember
    member: StreamsMember
    topology: Topology
    configured: ConfiguredTopology
    group_epoch: int
    records: list[Record]
    problems: list[Problem] = field(default_factory=list)


class StreamsHeartbeats:
    """Over the groups of one shard."""

    def __init__(self, shard: StreamsShard) -> None:
        self._shard = shard

    def beat(
        self, group: StreamsGroup, said: StreamsSaid, records: list[Record], now_ms: int, *, joins: bool
    ) -> StreamsStep:
        """All four steps; `records` make room for a new group. Raises `Refusal`."""
        before = self._member(group, said, joins=joins)
        self._check_owned(group, said.owned)
        member = _updated(before, said)
        changed = member != before
        records = [*records, *([member_metadata(group.group_id, member)] if changed else [])]
        step = self._with_topology(group, said, before, member, records)
        if changed or group.topology is None:
            self._check_memory(group, step)
        step.group_epoch = self._group_epoch(group, step, changed=changed)
        delay_ms = self._shard.settings.initial_rebalance_delay_ms(group.group_id)
        if not group.members and delay_ms > 0:
            self._shard.soft.delay(group.group_id, now_ms + delay_ms)
        epoch, target = self._target(group, step, now_ms)
        step.member = Reconciliation(epoch, target, group, said.owned).next_of(member)
        if step.member != member:
            step.records.append(current_assignment(group.group_id, step.member))
            self._shard.soft.follow_state(group.group_id, step.member, now_ms)
        if step.configured.problem is not None:
            step.problems.append(step.configured.problem)
        return step

    # -- the member ------------------------------------------------------------------------------------------

    def _member(self, group: StreamsGroup, said: StreamsSaid, *, joins: bool) -> StreamsMember:
        member = group.members.get(said.member_id)
        if member is None:
            if not joins:
                sentence = f"Member {said.member_id} is not a member of group {group.group_id}."
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
            most = self._shard.settings.max_size
            if len(group.members) >= most:
                sentence = f"The streams group has reached its maximum capacity of {most} members."
                raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, sentence)
            return StreamsMember(said.member_id)
        if not joins:
            _check_epoch(member, said)
        return member

    def _check_owned(self, group: StreamsGroup, owned: Tasks | None) -> None:
        """What a member names must be a task, where it is known what tasks there are."""
        seen = self._shard.soft.seen.get(group.group_id)
        if owned is None or seen is None or not seen.configured.is_ready:
            return
        for role in TaskRole:
            for subtopology, indexes in owned.of(role).items():
                count = seen.configured.tasks.get(subtopology)
                if count is None:
                    sentence = f"Subtopology {subtopology} does not exist in the topology."
                    raise Refusal(ErrorCode.INVALID_REQUEST, sentence)
                ordered = sorted(indexes)
                for index in (*ordered[:1], *ordered[-1:]):
                    if not 0 <= index < count:
                        sentence = (
                            f"Task {index} for subtopology {subtopology} is invalid. Number of tasks for this "
                            f"subtopology: {count}"
                        )
                        raise Refusal(ErrorCode.INVALID_REQUEST, sentence)

    def _check_memory(self, group: StreamsGroup, step: StreamsStep) -> None:
        known = group.members.get(step.member.member_id)
        growth = step.member.held_bytes - (0 if known is None else known.held_bytes)
        growth += step.topology.held_bytes if group.topology is None else 0
        if not self._shard.room.has(growth):
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No room for another member of a group.")

    # -- the application -------------------------------------------------------------------------------------

    def _with_topology(
        self,
        group: StreamsGroup,
        said: StreamsSaid,
        before: StreamsMember,
        member: StreamsMember,
        records: list[Record],
    ) -> StreamsStep:
        """What the member says of the application, beside what the group knows. Raises `Refusal`."""
        known, declared = group.topology, said.topology
        if known is None:
            if declared is None:
                sentence = "The topology is null and the group topology is also null."
                raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, sentence)
            known = declared
            records.append(topology_declared(group.group_id, declared))
        elif declared is not None and declared.epoch >= known.epoch and not declared.is_same_as(known):
            raise Refusal(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        configured = self._shard.look(group.group_id, known).configured
        step = StreamsStep(before, member, known, configured, group.epoch, records)
        if member.topology_epoch < known.epoch:
            sentence = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{known.epoch}."
            )
            step.problems.append(Problem(Status.STALE_TOPOLOGY, sentence))
        return step

    def _group_epoch(self, group: StreamsGroup, step: StreamsStep, *, changed: bool) -> int:
        """The epoch of the group after this heartbeat: another one if members, topics or settings have changed."""
        facts = group.facts
        copies = self._shard.settings.standby_replicas(group.group_id)
        now = GroupFacts(
            facts.epoch,
            self._shard.look(group.group_id, step.topology).metadata_hash,
            step.topology.epoch if step.configured.is_ready else -1,
            ((STANDBY_REPLICAS, str(copies)),),
        )
        if not changed and now == facts:
            return facts.epoch
        now = replace(now, epoch=facts.epoch + 1)
        step.records.append(group_facts(group.group_id, now))
        return now.epoch

    # -- the target ------------------------------------------------------------------------------------------

    def _target(self, group: StreamsGroup, step: StreamsStep, now_ms: int) -> tuple[int, Tasks]:
        group_id, member_id = group.group_id, step.member.member_id
        if step.group_epoch > group.assignment_epoch:
            interval_ms = self._shard.settings.assignment_interval_ms(group_id)
            last_ms = group.assignment_timestamp_ms
            if self._shard.soft.is_delayed(group_id):
                why = "initial rebalance delay"
            elif last_ms and interval_ms and now_ms < last_ms + interval_ms:
                why = "assignment interval"
            else:
                members = {**group.members, member_id: step.member}
                copies = self._shard.settings.standby_replicas(group_id)
                targets = new_targets(group, members, step.topology, step.configured, copies)
                step.records += records_of_targets(group, targets, step.group_epoch, now_ms)
                return step.group_epoch, targets[member_id]
            sentence = f"Assignment delayed due to the configured {why}."
            step.problems.append(Problem(Status.ASSIGNMENT_DELAYED, sentence))
        return group.assignment_epoch, group.target_of(member_id)

    def delayed_target(self, group: StreamsGroup, now_ms: int) -> list[Record]:
        """The first target of a group, after it has waited for its members."""
        if not group.members or group.topology is None or group.epoch <= group.assignment_epoch:
            return []
        try:
            configured = self._shard.look(group.group_id, group.topology).configured
        except Refusal:
            # Topics that have come have shown that it can never be run: each member is told with its next heartbeat.
            return []
        copies = self._shard.settings.standby_replicas(group.group_id)
        targets = new_targets(group, group.members, group.topology, configured, copies)
        return records_of_targets(group, targets, group.epoch, now_ms)


def _check_epoch(member: StreamsMember, said: StreamsSaid) -> None:
    """The answer that told the member its epoch may have been lost: then it comes with the one before."""
    if said.epoch == member.epoch:
        return
    if said.epoch > member.epoch:
        kind = "greater"
    elif said.epoch == member.previous_epoch and _is_within(said.owned, member.assigned):
        return
    else:
        kind = "smaller"
    sentence = (
        f"The streams group member has a {kind} member epoch ({said.epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, sentence)


def _is_within(owned: Tasks | None, assigned: HeldTasks) -> bool:
    if owned is None:
        return False
    ids = assigned.ids()
    return all(of <= ids.of(role).get(one, frozenset()) for role in TaskRole for one, of in owned.of(role).items())


def _updated(member: StreamsMember, said: StreamsSaid) -> StreamsMember:
    timeout_ms = said.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if said.rack_id is None else said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms is None else timeout_ms,
        topology_epoch=member.topology_epoch if said.topology is None else said.topology.epoch,
        process_id=member.process_id if said.process_id is None else said.process_id,
        endpoint=member.endpoint if said.endpoint is None else said.endpoint,
        tags=member.tags if said.tags is None else said.tags,
    )
