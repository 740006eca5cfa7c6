"""The configuration of share groups (KIP-932): the keys of brokers, and those that a group may have of its own."""

import re

from coordinator.cluster.keys.config_types import (
    ConfigKey,
    ConfigValue,
    Synonym,
    at_least,
    between,
    each_of,
    one_of,
)
from coordinator.cluster.keys.key_tables import ASSIGNMENT_INTERVAL, BOOLEAN, INT, LIST, SHORT, STRING, dynamic, fixed

HOUR_MS = 3_600_000
NO_LIMIT = float("inf")

SHARE_GROUPS = (
    fixed("group.share.assignors", LIST, "simple", "The assignor of share groups.", each_of("simple", empty=False)),
    fixed("group.share.max.size", INT, "200", "How many members a share group may have.", between(1, 1000)),
    fixed("group.share.max.share.sessions", INT, "2000", "How many share sessions this broker remembers.", at_least(1)),
    fixed(
        "group.share.initialize.retry.interval.ms",
        INT,
        "30000",
        "After how long share partitions are initialised again whose initialisation was not heard of.",
        at_least(1),
    ),
    *(
        (dynamic if name == ASSIGNMENT_INTERVAL and not bound else fixed)(
            f"group.share.{bound}{name}", INT, default, documentation, between(low, high)
        )
        for name, documentation, rows in (
            (
                "session.timeout.ms",
                "After how long without a heartbeat a member is given up.",
                (("", "45000", 1, NO_LIMIT), ("min.", "45000", 1, NO_LIMIT), ("max.", "60000", 1, NO_LIMIT)),
            ),
            (
                "heartbeat.interval.ms",
                "How often members are told to send a heartbeat.",
                (("", "5000", 1, NO_LIMIT), ("min.", "5000", 1, NO_LIMIT), ("max.", "15000", 1, NO_LIMIT)),
            ),
            (
                "assignment.interval.ms",
                "How long after an assignment the next may be computed.",
                (("", "1000", 0, NO_LIMIT), ("min.", "0", 0, NO_LIMIT), ("max.", "15000", 0, NO_LIMIT)),
            ),
            (
                "record.lock.duration.ms",
                "For how long a member has what it has acquired.",
                (
                    ("", "30000", 1000, HOUR_MS),
                    ("min.", "15000", 1000, 30_000),
                    ("max.", "60000", 30_000, HOUR_MS),
                ),
            ),
            (
                "delivery.count.limit",
                "How often a record is delivered at most.",
                (("", "5", 2, 10), ("min.", "2", 2, 5), ("max.", "10", 5, 25)),
            ),
            (
                "partition.max.record.locks",
                "How many records of a partition may be under way in a group.",
                (("", "2000", 100, 10_000), ("min.", "100", 100, 2_000), ("max.", "4000", 2_000, 10_000)),
            ),
        )
        for bound, default, low, high in rows
    ),
    fixed(
        "share.coordinator.state.topic.num.partitions",
        INT,
        "50",
        "How many partitions `__share_group_state` gets.",
        at_least(1),
    ),
    fixed("share.coordinator.state.topic.replication.factor", SHORT, "1", "Taken as 1.", at_least(1)),
    fixed("share.coordinator.state.topic.min.isr", SHORT, "1", "Taken as 1.", at_least(1)),
    fixed(
        "share.coordinator.state.topic.segment.bytes",
        INT,
        "104857600",
        "The segment size of `__share_group_state`.",
        at_least(1),
    ),
    fixed("share.coordinator.load.buffer.size", INT, "5242880", "How much of it is loaded in one slice.", at_least(1)),
    fixed(
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        "500",
        "How many changes of a share partition are written between two snapshots of it.",
        between(0, 500),
    ),
    fixed(
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        "300000",
        "How often the beginning of `__share_group_state` is deleted as far as nothing depends on it.",
        at_least(1),
    ),
    fixed(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        "300000",
        "After how long a share partition that nobody has written gets a new snapshot.",
        at_least(1),
    ),
)

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,15})D)?"
    r"(T(?=[-+\d])(?:([-+]?\d{1,15})H)?(?:([-+]?\d{1,15})M)?(?:([-+]?\d{1,15})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
BY_DURATION = "by_duration:"


def duration_ms(text: str) -> int | None:
    """What `by_duration:` is followed by, ISO 8601 as Java reads it (PnDTnHnMn.nS); None if it is none or negative."""
    found = _DURATION.fullmatch(text)
    if found is None or (found[2] is None and found[3] is None):
        return None
    days, hours, minutes, seconds = (int(found[group] or 0) for group in (2, 4, 5, 6))
    fraction = int((found[7] or "").ljust(9, "0"))
    nanos = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**9
    nanos += -fraction if (found[6] or "").startswith("-") else fraction
    nanos = -nanos if found[1] == "-" else nanos
    return None if nanos < 0 else nanos // 10**6


def _offset_reset(value: ConfigValue) -> str | None:
    assert isinstance(value, str)
    if value in ("earliest", "latest"):
        return None
    if value.startswith(BY_DURATION) and duration_ms(value.removeprefix(BY_DURATION)) is not None:
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


SHARE_GROUP_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        *(
            dynamic(f"share.{name}", INT, default, documentation, at_least(least), (Synonym(f"group.share.{name}"),))
            for name, default, documentation, least in (
                ("session.timeout.ms", "45000", "After how long without a heartbeat a member is given up.", 1),
                ("heartbeat.interval.ms", "5000", "How often members are told to send a heartbeat.", 1),
                ("assignment.interval.ms", "1000", "How long after an assignment the next may be computed.", 0),
                ("record.lock.duration.ms", "30000", "For how long a member has what it has acquired.", 1000),
                ("delivery.count.limit", "5", "How often a record is delivered at most.", 2),
                ("partition.max.record.locks", "2000", "How many records of a partition may be under way.", 100),
            )
        ),
        dynamic(
            "share.auto.offset.reset",
            STRING,
            "latest",
            "Where the group begins in a partition: earliest, latest, or by_duration: and how long ago.",
            _offset_reset,
        ),
        dynamic(
            "share.isolation.level",
            STRING,
            "read_uncommitted",
            "Whether records of transactions wait for their commit.",
            one_of("read_committed", "read_uncommitted"),
        ),
        dynamic(
            "share.renew.acknowledge.enable", BOOLEAN, "true", "Whether members may go on with what they have acquired."
        ),
    )
}
"""What a share group may have of its own."""

BOUNDED = (
    "heartbeat.interval.ms",
    "session.timeout.ms",
    "assignment.interval.ms",
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
)
"""Of these the broker says between which values they may be. Groups of the consumer protocol have the first three."""
