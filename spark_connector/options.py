"""Options as tables. Wherever Spark's own connector has a name for something, that is the name here.

Spark gives options as text, with names in any case. `kafka.*` names that no table knows are refused: a setting that is
silently without effect is worse than one that is missing. Names without the prefix are left alone, for Spark adds its
own; but not those that nearly have one of ours (`job_id`): what they were meant for would not happen.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from protocol.records.compression import NAMES
from spark_connector.errors import BadOption

Value = str | int | None


class Option(NamedTuple):
    """One row of a table."""

    name: str
    default: Value
    parse: Callable[[str], Value]
    meaning: str


def text(given: str) -> str:
    return given


def number(given: str) -> int:
    value = int(given)
    if value <= 0:
        raise ValueError("not above zero")
    return value


def one_of(*allowed: str) -> Callable[[str], str]:
    def parse(given: str) -> str:
        if given.lower() not in allowed:
            raise ValueError(f"not one of {', '.join(allowed)}")
        return given.lower()

    return parse


CLUSTER = (
    Option("kafka.bootstrap.servers", None, text, "host:port,host:port of the cluster; required"),
    Option("kafka.client.id", "tallystick-spark", text, "how the broker's logs and quotas name this client"),
    Option("kafka.security.protocol", "plaintext", one_of("plaintext"), "nothing but PLAINTEXT yet"),
)

SINK = (
    *CLUSTER,
    Option("topic", None, text, "where to write; without it each row says so in its column topic"),
    Option("sinkId", None, text, "name and transactional id of the sink; by default made of the query's id"),
    Option("checkpointLocation", None, text, "Spark's own; a streaming sink wants this or sinkId"),
    Option("groupId", None, text, "consumer group to which the source's offsets are committed with the batch"),
    Option("jobId", None, text, "batch only: a job of this name is written once, however often it is run"),
    Option("progressTopic", "__spark_sink_progress", text, "the control topic with the markers"),
    Option("kafka.compression.type", "none", one_of(*NAMES), "codec of the record batches"),
    Option("kafka.batch.size", 512 << 10, number, "bytes of records per record batch, before compression"),
    Option("kafka.buffer.memory", 32 << 20, number, "bytes that may wait to be sent"),
    Option(
        "kafka.transaction.timeout.ms", 300_000, number, "how long a micro-batch may take before the broker aborts it"
    ),
    Option("kafka.delivery.timeout.ms", 120_000, number, "how long a broker that is away is waited for"),
    Option("kafka.acks", "all", one_of("all", "-1"), "nothing but all"),
    Option("kafka.enable.idempotence", "true", one_of("true"), "always"),
)

OF_CONNECTIONS = {
    "kafka.client.dns.lookup": "every address of a name is tried",
    "kafka.connections.max.idle.ms": "a connection that was closed is opened again when it is needed",
    "kafka.metadata.max.age.ms": "metadata is asked for anew with each micro-batch, and after errors",
    "kafka.receive.buffer.bytes": "the operating system's",
    "kafka.reconnect.backoff.ms": "fixed, half a second at most",
    "kafka.reconnect.backoff.max.ms": "fixed, half a second at most",
    "kafka.request.timeout.ms": "fixed; then it is asked again",
    "kafka.retry.backoff.ms": "fixed, half a second at most",
    "kafka.retry.backoff.max.ms": "fixed, half a second at most",
    "kafka.send.buffer.bytes": "the operating system's",
}
"""Settings of Java's clients that have no counterpart in ours, and why: accepted, so that switching from Spark's own
connector is a matter of the format's name.
"""
WITHOUT_EFFECT = OF_CONNECTIONS | {
    "kafka.key.serializer": "keys are written as they are",
    "kafka.linger.ms": "a batch is sent when its rows are there",
    "kafka.max.block.ms": "kafka.delivery.timeout.ms says it",
    "kafka.max.in.flight.requests.per.connection": "one batch of a partition is under way at a time",
    "kafka.max.request.size": "kafka.batch.size says it; a larger row is a batch of its own",
    "kafka.retries": "kafka.delivery.timeout.ms says it",
    "kafka.value.serializer": "values are written as they are",
}
"""The same of a sink."""

OF_SPARK = frozenset({"path", "checkpointlocation", "groupidprefix", "fetchoffset.numretries"})
"""Names of Spark's, and of its own connector, that are not to be taken for misspelled ones of ours."""
_ALIKE = 0.9
"""From here on two names are taken for one: a letter too many in ten."""

REFUSED = {
    "kafka.transactional.id": "the transactional id of this sink is its sinkId: use option sinkId",
    "asyncprogresstrackingenabled": "async progress tracking commits batches that Spark may forget, which breaks "
    "exactly-once: leave asyncProgressTrackingEnabled out",
}


def read_options(table: Sequence[Option], given: Mapping[str, str]) -> dict[str, Value]:
    """Values by the table's names, defaults filled in. Raises `BadOption`."""
    by_name = {option.name.lower(): option for option in table}
    values: dict[str, Value] = {option.name: option.default for option in table}
    for name, value in given.items():
        lower = name.lower()
        if lower in REFUSED and value.lower() != "false":
            raise BadOption(REFUSED[lower])
        option = by_name.get(lower)
        if option is not None:
            values[option.name] = _parsed(option, value)
        elif lower.startswith("kafka.") and lower not in WITHOUT_EFFECT:
            known = ", ".join(sorted(option.name for option in table if option.name.startswith("kafka.")))
            raise BadOption(f"option {name} is not known here; known are {known}")
        elif (meant := _nearly(lower, by_name)) is not None:
            raise BadOption(f"option {name} is not known here: was {by_name[meant].name} meant?")
    if not values.get("kafka.bootstrap.servers"):
        raise BadOption("option kafka.bootstrap.servers is missing: host:port of a broker")
    return values


def _nearly(name: str, known: Collection[str]) -> str | None:
    """The name among ours that was probably meant; None where Spark, or somebody else, may mean something by it."""
    if name.startswith("kafka.") or name in OF_SPARK:
        return None
    letters = _letters(name)
    likeness = {one: SequenceMatcher(None, letters, _letters(one)).ratio() for one in known}
    best = max(likeness, key=lambda one: likeness[one])
    return best if likeness[best] >= _ALIKE else None


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name))


def _parsed(option: Option, value: str) -> Value:
    try:
        return option.parse(value)
    except ValueError as error:
        raise BadOption(f"option {option.name}={value}: {error} ({option.meaning})") from None
