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
from spark_connector.stock_settings import refusal
from tallystick.client.client import addresses_in
from tallystick.client.security_settings import PROTOCOLS

Value = str | int | None


class Option(NamedTuple):
    """One row of a table."""

    name: str
    default: Value
    parse: Callable[[str], Value]
    meaning: str


def text(given: str) -> str:
    return given


def servers(given: str) -> str:
    if given.strip():
        addresses_in(given)
    return given.strip()


def number(given: str) -> int:
    value = int(given)
    if value <= 0:
        raise ValueError("not above zero")
    return value


def int32(given: str) -> int:
    """As wide as it is in a request."""
    value = number(given)
    if value > _INT32:
        raise ValueError(f"above {_INT32}")
    return value


def one_of(*allowed: str) -> Callable[[str], str]:
    def parse(given: str) -> str:
        if given.lower() not in allowed:
            raise ValueError(f"not one of {', '.join(allowed)}")
        return given.lower()

    return parse


SECURITY = (
    Option(
        "kafka.security.protocol", "plaintext", one_of(*map(str.lower, PROTOCOLS)), "whether TLS and SASL are spoken"
    ),
    Option("kafka.ssl.truststore.location", None, text, "whom brokers are vouched for by; the system's authorities"),
    Option("kafka.ssl.truststore.type", None, text, "JKS, PKCS12 or PEM; JKS, and a PKCS12 is known for one"),
    Option("kafka.ssl.truststore.password", None, text, "of a JKS or PKCS12"),
    Option("kafka.ssl.truststore.certificates", None, text, "the same as text: with type PEM, in place of a location"),
    Option("kafka.ssl.keystore.location", None, text, "the client's own key, where brokers want one"),
    Option("kafka.ssl.keystore.type", None, text, "as of the trust store"),
    Option("kafka.ssl.keystore.password", None, text, "of a JKS or PKCS12"),
    Option("kafka.ssl.keystore.key", None, text, "the key as text: with type PEM, in place of a location"),
    Option("kafka.ssl.keystore.certificate.chain", None, text, "its certificates as text"),
    Option("kafka.ssl.key.password", None, text, "of the key, where it has one of its own"),
    Option(
        "kafka.ssl.endpoint.identification.algorithm",
        None,
        text,
        "https; empty: names are not compared",
    ),
    Option("kafka.ssl.enabled.protocols", None, text, "TLSv1.2,TLSv1.3"),
    Option("kafka.ssl.cipher.suites", None, text, "by Java's names; OpenSSL's choice"),
    Option("kafka.sasl.mechanism", None, text, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
    Option("kafka.sasl.jaas.config", None, text, "the login module with username and password, or what tokens need"),
    Option("kafka.sasl.login.callback.handler.class", None, text, "Kafka's own OAuthBearerLoginCallbackHandler"),
    Option("kafka.sasl.login.read.timeout.ms", None, text, "how long a token endpoint is waited for; 10000"),
    Option("kafka.sasl.oauthbearer.token.endpoint.url", None, text, "https://, or file:/// of a file with a token"),
    Option("kafka.sasl.oauthbearer.client.credentials.client.id", None, text, "in place of clientId"),
    Option("kafka.sasl.oauthbearer.client.credentials.client.secret", None, text, "in place of clientSecret"),
    Option("kafka.sasl.oauthbearer.scope", None, text, "in place of scope"),
    Option("kafka.sasl.oauthbearer.header.urlencode", None, text, "whether id and secret are encoded"),
    Option("kafka.sasl.oauthbearer.jwt.retriever.class", None, text, "Kafka's own, for client credentials and files"),
)
"""See `tallystick.client.security_settings`, which reads them; without a value it knows the default."""

CLUSTER = (
    Option("kafka.bootstrap.servers", None, servers, "host:port,host:port of the cluster; required"),
    Option("kafka.client.id", "tallystick-spark", text, "how the broker's logs and quotas name this client"),
    *SECURITY,
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
        "kafka.transaction.timeout.ms", 300_000, int32, "how long a micro-batch may take before the broker aborts it"
    ),
    Option("kafka.delivery.timeout.ms", 120_000, number, "how long a broker that is away is waited for"),
    Option("kafka.acks", "all", one_of("all", "-1"), "nothing but all"),
    Option("kafka.enable.idempotence", "true", one_of("true"), "always"),
)

_INT32 = (1 << 31) - 1
OF_SPARK = frozenset({"path", "checkpointlocation", "groupidprefix", "fetchoffset.numretries"})
"""Names of Spark's, and of its own connector, that are not to be taken for misspelled ones of ours."""
_ALIKE = 0.9
"""From here on two names are taken for one: a letter too many in ten."""


def read_options(
    table: Sequence[Option], given: Mapping[str, str], *, without_effect: Collection[str], refused: Mapping[str, str]
) -> dict[str, Value]:
    """Values by the table's names, defaults filled in. Raises `BadOption`."""
    by_name = {option.name.lower(): option for option in table}
    values: dict[str, Value] = {option.name: option.default for option in table}
    for name, value in given.items():
        lower = name.lower()
        if (why := refusal(lower, value, refused)) is not None:
            raise BadOption(f"option {name}: {why}")
        option = by_name.get(lower)
        if option is not None:
            values[option.name] = _parsed(option, value)
        elif lower in without_effect or lower in refused:
            continue
        elif (meant := _nearly(lower, by_name)) is not None:
            raise BadOption(f"option {name} is not known here: was {by_name[meant].name} meant?")
        elif lower.startswith("kafka."):
            known = ", ".join(sorted(option.name for option in table if option.name.startswith("kafka.")))
            raise BadOption(f"option {name} is not known here; known are {known}")
    if not values.get("kafka.bootstrap.servers"):
        raise BadOption("option kafka.bootstrap.servers is missing: host:port of a broker")
    return values


def _nearly(name: str, known: Collection[str]) -> str | None:
    """The name among ours that was probably meant; None where Spark, or somebody else, may mean something by it."""
    if name in OF_SPARK:
        return None
    if f"kafka.{name}" in known:
        return f"kafka.{name}"
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
