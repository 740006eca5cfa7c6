"""What the connector raises: each says what happened and what to do about it.

Spark shows the text of these in the query's exception; there is no other way to speak to its user.
"""

import re

from protocol.errors import ErrorCode
from tallystick.client.errors import ConnectionLost, Fenced, KafkaError, NoWayIn, TransactionGone, UnsupportedByBroker


class ConnectorError(Exception):
    """Anything the connector gives up on."""


class BadOption(ConnectorError):
    """An option is missing, unknown or not what it must be."""


class UnsupportedPySpark(ConnectorError):
    """This PySpark has not what is needed."""


class BadRows(ConnectorError):
    """The columns are not what the sink takes, or a row cannot be written."""


class NotOneWriter(ConnectorError):
    """The plan writes with several tasks where one transaction has room for one writer."""


class NotMicroBatches(ConnectorError):
    """The query runs in a mode in which Spark does not hand its rows to Python sinks."""


class TurnRefused(ConnectorError):
    """Another attempt of a task writes its rows, its batch is over, or the driver cannot be reached."""


class DriverAway(TurnRefused):
    """The driver's Python process cannot be reached from where a task runs."""


class TaskLost(ConnectorError):
    """A task was lost when others were done, whose rows are in its transaction: only a restart writes them anew."""


class BatchIncomplete(ConnectorError):
    """Not everything that tasks began to write was acknowledged."""


class CheckpointWentBack(ConnectorError):
    """The checkpoint wants a batch that the control topic knows to be done otherwise or long ago."""


class SinkChanged(ConnectorError):
    """The query's batch is in Kafka already, under another sink id or in another topic."""


class CalledTwice(ConnectorError):
    """Two writers of one `foreachBatch` have the same sink id: the second one's rows would be taken for written."""


class SinkTakenOver(ConnectorError):
    """Another writer has taken the sink's transactional id, or the transaction ran into its timeout."""


class TransactionAborted(ConnectorError):
    """The broker has aborted the transaction: nothing of the batch is visible."""


class NoTransactions(ConnectorError):
    """The broker does not speak transactions."""


class BrokerUnreachable(ConnectorError):
    """No broker answered in time."""


class NoAccess(ConnectorError):
    """The cluster does not let the query in, or is not shown to be the one that the query trusts."""


class RefusedByBroker(ConnectorError):
    """The broker refused for a reason that does not pass by itself."""


class UnsafeProgressTopic(ConnectorError):
    """The control topic would forget markers."""


class SourceOffsetsUnknown(ConnectorError):
    """The checkpoint cannot be read, or does not say what a batch has read."""


_TOO_LARGE = (
    "raise the topic's max.message.bytes, or lower kafka.batch.size; that is of no use where one row alone is larger"
)
_ADVICE = {
    ErrorCode.SASL_AUTHENTICATION_FAILED: "correct kafka.sasl.jaas.config, or what gives the token",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "choose another kafka.sasl.mechanism",
    ErrorCode.ILLEGAL_SASL_STATE: "take kafka.security.protocol PLAINTEXT or SSL",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "give the principal WRITE on the topic (READ, for a source)",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "give the principal WRITE on the transactional id, the sinkId",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "give the principal READ on the group of option groupId",
    ErrorCode.MESSAGE_TOO_LARGE: _TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or correct its name",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "correct the topic's name, or write to a topic that is not Kafka's own",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "lower kafka.transaction.timeout.ms to the broker's maximum",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another kafka.compression.type",
    ErrorCode.POLICY_VIOLATION: "the cluster's policy forbids it",
    ErrorCode.INVALID_REPLICATION_FACTOR: "create the control topic yourself: compacted, with enough replicas",
}


_NOT_LET_IN = (
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
)
_SETTING = re.compile(r"(?<![\w.])(?=(?:security|ssl|sasl)\.[a-z])")


def as_options(sentence: str) -> str:
    """A sentence about settings of Kafka's clients, with their names as options have them."""
    return _SETTING.sub("kafka.", sentence)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def explained(error: Exception, doing: str) -> ConnectorError:
    """What an error of the client means to the user of a query that was `doing` something."""
    if isinstance(error, ConnectorError):
        return error
    if isinstance(error, Fenced):
        return SinkTakenOver(
            f"{doing}: {error}. Either another query or a second driver writes with this sinkId, this checkpoint or a "
            "copy of it (give each its own), or the batch took longer than kafka.transaction.timeout.ms (raise it). "
            "A restart of the query replays the batch and is safe."
        )
    if isinstance(error, TransactionGone):
        return TransactionAborted(
            f"{doing}: {error}. The broker has aborted the transaction, most often because the batch took longer than "
            "kafka.transaction.timeout.ms (raise it). Nothing of the batch is visible; a restart replays it."
        )
    if isinstance(error, UnsupportedByBroker):
        return NoTransactions(
            f"{doing}: {error}. The connector needs Kafka 2.5 or newer, or a broker with its transactions."
        )
    if isinstance(error, NoWayIn):
        return NoAccess(f"{doing}: {as_options(str(error))}")
    if isinstance(error, KafkaError):
        code = ErrorCode(error.code) if error.code in ErrorCode.__members__.values() else ErrorCode.UNKNOWN_SERVER_ERROR
        kind = NoAccess if code in _NOT_LET_IN else RefusedByBroker
        return kind(f"{doing}: {error}. {_sentence(_ADVICE.get(code, 'the broker log says more.'))}")
    return BrokerUnreachable(
        f"{doing}: {error}. Is kafka.bootstrap.servers right, and the broker up? How long the sink waits is "
        "kafka.delivery.timeout.ms, a source kafkaConsumer.pollTimeoutMs. A restart of the query is safe."
    )


def same_error(name: str, message: str) -> ConnectorError:
    """What another process raised, with the type it had there."""
    kind = globals().get(name, ConnectorError)
    assert issubclass(kind, ConnectorError)
    error: ConnectorError = kind(message)
    return error


CLIENT_ERRORS = (KafkaError, ConnectionLost, UnsupportedByBroker, NoWayIn, OSError)
"""What `explained` explains."""
