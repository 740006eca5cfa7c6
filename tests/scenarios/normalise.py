"""Which parts of an answer differ from run to run, and what is written in their place. Nothing else is left out.

producer ids              P1, P2 ... in the order of their first sight
member ids                M1, M2 ...
fetch session ids         S1, S2 ...
data folders              D1, D2 ...
what a machine has        … (sizes of disks, the end of the metadata log, names of listeners)
epochs of leaders         E for the one that a topic has which is made now; E+1 after the broker's next start.
and coordinators          -1 stays -1
times                     T+5 five milliseconds after the story's own zero (times that a client gave), else `now`
topics, groups, ids       each run puts a suffix behind them, which is taken away again; topic ids become names
this node, any of them    N
messages for people       "…" where there is one, null where there is none
throttle time, host,      left out
port, cluster id
lists of a whole broker   cut down to what the story made, and sorted; so are members of a group
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.groups.consumer.embedded import read_assignment
from protocol.errors import ErrorCode

LEFT_OUT = {"throttle_time_ms", "host", "port", "rack", "cluster_id", "node_endpoints", "client_host", "documentation"}
SHOWN_WHOLE = {"StreamsEndpoint", "LoggedEndpoint"}
"""Structures of which nothing is left out: a client has said it."""
OWN_EPOCHS = {"DescribedTopology", "StreamsGroupTopologyValue"}
"""Structures whose epoch a client has chosen."""
EPOCHS = {
    "leader_epoch",
    "committed_leader_epoch",
    "coordinator_epoch",
    "current_leader_epoch",
    "last_fetched_epoch",
    "epoch",
}
PRODUCERS = {"producer_id", "previous_producer_id", "next_producer_id", "ongoing_txn_producer_id"}
MEMBERS = {"member_id", "leader"}
NODES = {"node_id", "leader_id", "controller_id", "broker_id", "replica_nodes", "isr_nodes", "replica_id"}
MESSAGES = {"error_message", "batch_index_error_message"}
SORTED = {
    *("members", "groups", "transaction_states", "active_producers", "partitions", "topics", "configs"),
    *("responses", "results", "partition_responses", "topic_results", "entries", "entity", "values"),
    *("topic_partitions", "subscribed_topic_names", "assigned_partitions", "partitions_pending_revocation"),
    *("results_by_topic_v3_and_below", "results_by_partition"),
    *("initializing_topics", "initialized_topics", "deleting_topics"),
    *("partitions_by_user_endpoint", "active_partitions", "standby_partitions", "topic_configs", "client_tags"),
}
"""Lists whose order Kafka leaves to a hash table."""
OWN_ONLY = {"ListTransactionsResponse": "transaction_states", "ListGroupsResponse": "groups"}
OF_A_STORY = re.compile(r"\.r[0-9a-f]+x[0-9]+$")
"""The suffix of any run."""
VARIES = {
    "DescribeLogDirsResult": {"total_bytes", "usable_bytes"},
    "DescribeQuorumResponseListener": {"name"},
    "DescribeQuorumResponsePartitionData": {"leader_epoch", "high_watermark"},
    "ReplicaState": {"log_end_offset"},
}
"""By structure: fields whose value is said to be there, and no more."""
SUBSCRIPTION = re.compile(rb"\0\0(\0\0\0.)(.*)\0\0\0.(.*)", re.DOTALL)
"""A subscription of the consumer protocol, version 0: topics with their lengths, then the user's part with its own."""
NO_USER_DATA = b"\xff\xff\xff\xff"
UNKNOWN_ID = bytes(15) + b"\x07"
TIME_WINDOW_MS = 600_000


@dataclass(slots=True)
class Names:
    """What stands for what in one run of one story."""

    suffix: str
    zero_ms: int
    """The story's own zero of time."""
    node_ids: frozenset[int] = frozenset((1,))
    base_epoch: int = 0
    known: dict[str, dict[object, str]] = field(default_factory=lambda: {"P": {}, "M": {}, "S": {}, "D": {}})
    literals: set[object] = field(default_factory=lambda: {""})
    """Words that a request said itself stay what they are ..."""
    strange_producers: set[int] = field(default_factory=lambda: {-1})
    """... and so do producer ids that were written as numbers."""
    topics: dict[bytes, str] = field(default_factory=dict)

    def bound(self, letter: str, value: object) -> str:
        names = self.known[letter]
        return names.setdefault(value, f"{letter}{len(names) + 1}")

    def meant_by(self, name: str) -> object | None:
        """The value behind P1, M1, S1, D1; None for anything else."""
        if re.fullmatch(r"[PMSD]\d+", name):
            for value, given in self.known[name[0]].items():
                if given == name:
                    return value
        return None

    def id_of_topic(self, name: str) -> bytes:
        """The newest id of a topic of the story; of one that it does not know, one that nothing has."""
        return {known: identity for identity, known in self.topics.items()}.get(name, UNKNOWN_ID)

    def unique(self, name: str) -> str:
        return name if name == "" or name.endswith(self.suffix) else name + self.suffix

    def plain(self, text: str) -> str:
        return text.replace(self.suffix, "")

    def without_ids(self, text: str) -> str:
        """The key of a share coordinator: the name of a topic for its id."""
        for identity, name in self.topics.items():
            text = text.replace(urlsafe_b64encode(identity).decode().rstrip("="), name)
        return text


def scalar(names: Names, field_name: str, value: object) -> str:
    """How one value of a field is written."""
    if field_name.endswith("error_code") and isinstance(value, int):
        name = ErrorCode(value).name
        return name if field_name in ("error_code", "partition_error_code") else f"{field_name}={name}"
    return f"{field_name}={_value(names, field_name, value)}"


def _value(names: Names, field_name: str, value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if field_name in MESSAGES and value:
        return '"…"'
    if isinstance(value, list):
        shown = [_value(names, field_name, item) for item in value]
        return "[" + " ".join(sorted(shown) if field_name in SORTED else shown) + "]"
    if isinstance(value, int):
        return number(names, field_name, value)
    if isinstance(value, bytes):
        if field_name == "topic_id":
            return topic_id(names, value)
        return _opaque(names, value)
    text = names.plain(str(value))
    if field_name == "key":
        text = names.without_ids(text)
    if field_name == "log_dir":
        return names.bound("D", value)
    if field_name in MEMBERS and value not in names.literals:
        return names.bound("M", value)
    return text if text and " " not in text else f'"{text}"'


def _opaque(names: Names, value: bytes) -> str:
    """Of a subscription its topics and what the user says, of an assignment its partitions; else what is there."""
    if value.startswith(b"\0\0") and value.endswith(NO_USER_DATA):
        owned = read_assignment(value).assigned_partitions
        return ",".join(f"{names.plain(one.topic)}-{index}" for one in owned for index in one.partitions)
    found = SUBSCRIPTION.fullmatch(value)
    if found is None:
        return value.decode("latin-1")
    topics, rest = [], found[2]
    while rest:
        size = 2 + int.from_bytes(rest[:2], "big")
        topics.append(names.plain(rest[2:size].decode()))
        rest = rest[size:]
    return ",".join(topics) + (":" if topics else "") + found[3].decode()


def number(names: Names, field_name: str, value: int) -> str:
    if field_name in PRODUCERS and (value not in names.strange_producers or value in names.known["P"]):
        return names.bound("P", value)
    if field_name == "session_id" and value:
        return names.bound("S", value)
    if field_name in EPOCHS and value >= 0:
        delta = value - names.base_epoch
        return "E" if delta == 0 else f"E{delta:+d}"
    if field_name in NODES and value in names.node_ids:
        return "N"
    if "timestamp" in field_name or field_name in ("log_append_time_ms", "transaction_start_time_ms"):
        return time(names, value)
    return str(value)


def time(names: Names, value: int) -> str:
    if value < 0:
        return str(value)
    delta = value - names.zero_ms
    return f"T+{delta}" if 0 <= delta < TIME_WINDOW_MS else "now"


def topic_id(names: Names, value: bytes) -> str:
    if not any(value):
        return "0"
    return names.topics.get(value, "unknown")


def keeps(names: Names, message_name: str) -> Callable[[object], bool]:
    """Which entries of a broker-wide list belong to the story. Resources with settings do that are of no other."""
    if message_name == "ListConfigResourcesResponse":
        return lambda entry: OF_A_STORY.sub(names.suffix, name := str(getattr(entry, "resource_name", ""))) == name
    if message_name not in OWN_ONLY:
        return lambda entry: True
    return lambda entry: str(getattr(entry, "transactional_id", "") or getattr(entry, "group_id", "")).endswith(
        names.suffix
    )
