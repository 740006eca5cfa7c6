"""Options as tables. Wherever Spark's own connector has a name for something, that is the name here.

Spark gives options as text, with names in any case. `kafka.*` names that no table knows are refused: a setting that is
silently without effect is worse than one that is missing. Names without the prefix are left alone: Spark adds its own.
"""

from collections.abc import Callable, Mapping, Sequence
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
    Option("sinkId", None, text, "name and transactional id of the sink; by default made of checkpointLocation"),
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

WITHOUT_EFFECT = frozenset(
    {
        "kafka.linger.ms",
        "kafka.retries",
        "kafka.max.in.flight.requests.per.connection",
        "kafka.max.block.ms",
        "kafka.max.request.size",
        "kafka.request.timeout.ms",
        "kafka.key.serializer",
        "kafka.value.serializer",
    }
)
"""Settings of the stock sink that need no counterpart; accepted, so that switching is a matter of the format's name."""

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
    if not values.get("kafka.bootstrap.servers"):
        raise BadOption("option kafka.bootstrap.servers is missing: host:port of a broker")
    return values


def _parsed(option: Option, value: str) -> Value:
    try:
        return option.parse(value)
    except ValueError as error:
        raise BadOption(f"option {option.name}={value}: {error} ({option.meaning})") from None
