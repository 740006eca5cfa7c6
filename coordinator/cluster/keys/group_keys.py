"""The configuration of consumer groups (KIP-848): the keys of brokers; and those that any group may have of its own."""

from collections.abc import Mapping

from coordinator.cluster.keys.config_types import ConfigKey, Synonym, at_least, each_of, one_of_in_any_case
from coordinator.cluster.keys.key_tables import ASSIGNMENT_INTERVAL, INT, LIST, STRING, dynamic, fixed
from coordinator.cluster.keys.share_keys import BOUNDED, SHARE_GROUP_KEYS
from coordinator.cluster.keys.streams_keys import STREAMS_GROUP_KEYS

INT_MAX = (1 << 31) - 1

CONSUMER_GROUPS = (
    fixed(
        "group.consumer.assignors",
        LIST,
        "uniform,range",
        "The assignors that members may ask for; the first is that of groups whose members ask for none.",
        each_of("uniform", "range", empty=False),
    ),
    fixed("group.consumer.max.size", INT, str(INT_MAX), "How many members a consumer group may have.", at_least(1)),
    fixed(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Between which protocols a group with members may go on line: disabled, upgrade, downgrade, bidirectional.",
        one_of_in_any_case("disabled", "upgrade", "downgrade", "bidirectional"),
    ),
    fixed(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        "600000",
        "After how long regular expressions are resolved anew, whatever has happened.",
        at_least(10_000),
    ),
    *(
        (dynamic if name == ASSIGNMENT_INTERVAL and not bound else fixed)(
            f"group.consumer.{bound}{name}", INT, default, documentation, at_least(least)
        )
        for name, documentation, least, rows in (
            (
                "session.timeout.ms",
                "After how long without a heartbeat a member is given up.",
                1,
                (("", "45000"), ("min.", "45000"), ("max.", "60000")),
            ),
            (
                "heartbeat.interval.ms",
                "How often members are told to send a heartbeat.",
                1,
                (("", "5000"), ("min.", "5000"), ("max.", "15000")),
            ),
            (
                "assignment.interval.ms",
                "How long after an assignment the next may be computed.",
                0,
                (("", "1000"), ("min.", "0"), ("max.", "15000")),
            ),
        )
        for bound, default in rows
    ),
)

GROUP_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        dynamic(
            "consumer.session.timeout.ms",
            INT,
            "45000",
            "After how long without a heartbeat a member is given up.",
            at_least(1),
            (Synonym("group.consumer.session.timeout.ms"),),
        ),
        dynamic(
            "consumer.heartbeat.interval.ms",
            INT,
            "5000",
            "How often members are told to send a heartbeat.",
            at_least(1),
            (Synonym("group.consumer.heartbeat.interval.ms"),),
        ),
        dynamic(
            "consumer.assignment.interval.ms",
            INT,
            "1000",
            "How long after an assignment the next may be computed.",
            at_least(0),
            (Synonym("group.consumer.assignment.interval.ms"),),
        ),
        *SHARE_GROUP_KEYS.values(),
        *STREAMS_GROUP_KEYS,
    )
}
"""What a group may have of its own."""


def problem_with(values: Mapping[str, int], bounds: Mapping[str, int]) -> str | None:
    """What is wrong with the settings of a group; `bounds` are those of the broker, by key."""
    for kind, names in (("consumer", BOUNDED[:3]), ("share", BOUNDED), ("streams", BOUNDED[:3])):
        for name in names:
            key, low, high = f"{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
            if values[key] < bounds[low]:
                return f"{key} must be greater than or equal to {low}"
            if values[key] > bounds[high]:
                return f"{key} must be less than or equal to {high}"
        if values[f"{kind}.session.timeout.ms"] <= values[f"{kind}.heartbeat.interval.ms"]:
            return f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
    if values["streams.num.standby.replicas"] > bounds["group.streams.max.standby.replicas"]:
        return "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"
    return None
