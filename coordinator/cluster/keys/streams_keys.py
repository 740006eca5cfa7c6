"""The configuration of streams groups (KIP-1071): the keys of brokers, and those that a group may have of its own."""

from coordinator.cluster.keys.config_types import Synonym, at_least
from coordinator.cluster.keys.key_tables import ASSIGNMENT_INTERVAL, INT, dynamic, fixed

INT_MAX = (1 << 31) - 1
_SESSION = "After how long without a heartbeat a member is given up."
_HEARTBEAT = "How often members are told to send a heartbeat."
_ASSIGNMENT = "How long after an assignment the next may be computed."
_STANDBYS = "How many copies of the state of each task are kept, beside the one of the task itself."
_DELAY = "How long a group without members waits for more of them before their first tasks are assigned."

STREAMS_GROUPS = (
    fixed("group.streams.max.size", INT, str(INT_MAX), "How many members a streams group may have.", at_least(1)),
    fixed("group.streams.initial.rebalance.delay.ms", INT, "3000", _DELAY, at_least(0)),
    fixed("group.streams.num.standby.replicas", INT, "0", _STANDBYS, at_least(0)),
    fixed("group.streams.max.standby.replicas", INT, "2", "How many of them a group may ask for.", at_least(0)),
    *(
        (dynamic if name == ASSIGNMENT_INTERVAL and not bound else fixed)(
            f"group.streams.{bound}{name}", INT, default, documentation, at_least(least)
        )
        for name, documentation, least, rows in (
            ("session.timeout.ms", _SESSION, 1, (("", "45000"), ("min.", "45000"), ("max.", "60000"))),
            ("heartbeat.interval.ms", _HEARTBEAT, 1, (("", "5000"), ("min.", "5000"), ("max.", "15000"))),
            ("assignment.interval.ms", _ASSIGNMENT, 0, (("", "1000"), ("min.", "0"), ("max.", "15000"))),
        )
        for bound, default in rows
    ),
)

STREAMS_GROUP_KEYS = tuple(
    dynamic(f"streams.{name}", INT, default, documentation, at_least(least), (Synonym(f"group.streams.{name}"),))
    for name, default, documentation, least in (
        ("session.timeout.ms", "45000", _SESSION, 1),
        ("heartbeat.interval.ms", "5000", _HEARTBEAT, 1),
        ("num.standby.replicas", "0", _STANDBYS, 0),
        ("initial.rebalance.delay.ms", "3000", _DELAY, 0),
        ("assignment.interval.ms", "1000", _ASSIGNMENT, 0),
    )
)
"""What a group may have of its own."""
