"""The table of keys that limit connections and what clients use: how many, how fast, for how long, and over which time
quotas are looked at. The quotas themselves are no settings (`coordinator.cluster.quotas`).
"""

from coordinator.cluster.keys.config_types import at_least, lets_somebody_in
from coordinator.cluster.keys.key_tables import INT, LONG, dynamic, fixed

INT_MAX = (1 << 31) - 1

LIMIT_KEYS = (
    fixed("connections.max.idle.ms", LONG, "600000", "After how long a silent connection is closed.", at_least(-1)),
    dynamic("max.connections", INT, str(INT_MAX), "How many connections may be open.", lets_somebody_in),
    dynamic(
        "max.connections.per.ip", INT, str(INT_MAX), "How many connections one address may have.", lets_somebody_in
    ),
    fixed(
        "queued.max.request.bytes",
        LONG,
        "-1",
        "How many bytes of requests may be held at once; -1: our own limit.",
        at_least(-1),
    ),
    fixed("quota.window.num", INT, "11", "How many windows of time are looked at for a quota.", at_least(1)),
    fixed("quota.window.size.seconds", INT, "1", "How long each of them is.", at_least(1)),
    fixed(
        "controller.quota.window.num",
        INT,
        "11",
        "For how many windows of time mutations of the metadata may be saved up.",
        at_least(1),
    ),
    fixed("controller.quota.window.size.seconds", INT, "1", "How long each of them is.", at_least(1)),
)
