"""Subscriptions by regular expression: when they are resolved, and what follows.

The coordinator asks (`Resolution`), `broker` looks through the names of all topics elsewhere, as the member that asked
may see them, and comes back (`resolved`). Until then the expression stands for no topic. It is asked for again when
there are new topics and ten seconds have gone by, and after the interval of the settings in any case.
"""

from collections.abc import Mapping
from enum import Enum

from coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator.groups.consumer.log_entries import group_epoch, regex_tombstone, regular_expression
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.shard import ConsumerShard
from coordinator.groups.consumer.soft_state import Resolution
from coordinator.machine import Record
from protocol.errors import ErrorCode

BETWEEN_RESOLUTIONS_MS = 10_000


class Changed(Enum):
    """What a heartbeat did to the expression of a member."""

    NOT = "not"
    UNRESOLVED = "unresolved"
    """A new target would have to be computed again when it is resolved."""
    RESOLVED = "resolved"
    """The topics that the member wants are known."""


class Expressions:
    """Over the groups of one shard."""

    def __init__(self, shard: ConsumerShard) -> None:
        self._shard = shard

    def update(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, problem: str | None
    ) -> tuple[Changed, list[Record]]:
        """A member asks for another expression, or none. `problem` is what is wrong with it. Raises `Refusal`."""
        old, new = before.regex or "", after.regex or ""
        if (before.regex, old) == (after.regex, new):
            return Changed.NOT, []
        records = [regex_tombstone(group.group_id, old)] if old and group.regex_members.get(old) == 1 else []
        if not new:
            return Changed.RESOLVED if old else Changed.UNRESOLVED, records
        if new in group.regex_members:
            return Changed.RESOLVED if new in group.resolved else Changed.UNRESOLVED, records
        if problem is not None:
            sentence = f"SubscribedTopicRegex `{new}` is not a valid regular expression: {problem}."
            raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, sentence)
        return Changed.UNRESOLVED, records

    def due(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, now_ms: int
    ) -> Resolution | None:
        """What is to be resolved now, if anything. It is not asked for twice."""
        asked_ms = self._shard.soft.resolving.get(group.group_id)
        # The one who asked may have gone, or its request was refused: then nobody looks.
        under_way = asked_ms is not None and now_ms < asked_ms + BETWEEN_RESOLUTIONS_MS
        if under_way:
            return None
        asked_alone = before.member_id in group.members and group.regex_members.get(before.regex or "") == 1
        others = (regex for regex in group.regex_members if not (asked_alone and regex == before.regex))
        expressions = tuple(dict.fromkeys(filter(None, (*others, after.regex))))
        is_new = bool(after.regex) and after.regex not in group.regex_members
        if not expressions or not self._is_due(group, expressions, now_ms, is_new=is_new):
            return None
        self._shard.soft.resolving[group.group_id] = now_ms
        topics = self._shard.topics
        return Resolution(group.group_id, expressions, topics.creations, topics.offset, now_ms)

    def _is_due(self, group: ConsumerGroup, expressions: tuple[str, ...], now_ms: int, *, is_new: bool) -> bool:
        last_ms = next((one.timestamp_ms for one in group.resolved.values()), None)
        if last_ms is None:
            return True
        if now_ms <= last_ms + BETWEEN_RESOLUTIONS_MS:
            return False
        return (
            is_new
            or len(expressions) != len(group.resolved)
            or self._shard.soft.creations_seen.get(group.group_id) != self._shard.topics.creations
            or now_ms > last_ms + self._shard.settings.regex_refresh_interval_ms
        )

    def failed(self, asked: Resolution) -> None:
        """The request was refused with which it was asked for: the next heartbeat asks again."""
        self._shard.soft.resolving.pop(asked.group_id, None)

    def postponed(self, asked: Resolution, now_ms: int) -> None:
        """It could not be found out, or the log did not take it, for more topics match than one batch takes. To look
        through all of them with each heartbeat would be in vain: it is asked for again in a while."""
        if asked.group_id in self._shard.groups.by_id:
            self._shard.soft.resolving[asked.group_id] = now_ms

    def resolved(self, asked: Resolution, found: Mapping[str, frozenset[str]]) -> list[Record]:
        """The topics that expressions stand for; what follows of that comes with the next heartbeats."""
        soft = self._shard.soft
        soft.resolving.pop(asked.group_id, None)
        group = self._shard.groups.by_id.get(asked.group_id)
        if group is None:
            return []
        soft.creations_seen[asked.group_id] = asked.creations
        records = []
        after = dict(group.resolved)
        for regex, names in found.items():
            if regex in group.regex_members:
                after[regex] = ResolvedRegex(names, asked.offset, asked.asked_ms)
                records.append(regular_expression(group.group_id, regex, after[regex]))
        changed = any(after[regex].topics != _topics(group.resolved.get(regex)) for regex in after)
        wanted = {name for member in group.members.values() for name in member.topics}
        wanted.update(name for regex in group.regex_members if regex in after for name in after[regex].topics)
        metadata_hash = self._shard.hashes.of(wanted)
        if changed or metadata_hash != group.metadata_hash:
            records.append(group_epoch(group.group_id, group.epoch + 1, metadata_hash))
            soft.saw(group, self._shard.topics.revision, group.epoch + 1)
        return records


def _topics(resolved: ResolvedRegex | None) -> frozenset[str]:
    return frozenset() if resolved is None else resolved.topics
