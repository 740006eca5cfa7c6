"""What the client raises becomes what a user can act on."""

import pytest

from protocol.errors import ErrorCode
from spark_connector.errors import (
    BrokerUnreachable,
    ConnectorError,
    NoAccess,
    NotOneWriter,
    NoTransactions,
    RefusedByBroker,
    SinkTakenOver,
    TransactionAborted,
    explained,
)
from tallystick.client.errors import (
    ConnectionLost,
    Fenced,
    KafkaError,
    NotAuthenticated,
    NotSecured,
    TransactionGone,
    UnsupportedByBroker,
)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (Fenced(ErrorCode.PRODUCER_FENCED), SinkTakenOver, "sinkId"),
        (TransactionGone(ErrorCode.INVALID_TXN_STATE), TransactionAborted, "kafka.transaction.timeout.ms"),
        (UnsupportedByBroker("x"), NoTransactions, "Kafka 2.5"),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), RefusedByBroker, "kafka.batch.size"),
        (KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT), RefusedByBroker, "kafka.transaction.timeout.ms"),
        (KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION), RefusedByBroker, "the topic's name"),
        (KafkaError(-77), RefusedByBroker, "error -77"),
        (KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED), NoAccess, "kafka.sasl.jaas.config"),
        (KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM), NoAccess, "kafka.sasl.mechanism"),
        (NotSecured("h:1: see ssl.truststore.location"), NoAccess, "see kafka.ssl.truststore.location"),
        (NotAuthenticated("no token"), NoAccess, "no token"),
        (ConnectionLost("gone"), BrokerUnreachable, "kafka.bootstrap.servers"),
        (OSError("refused"), BrokerUnreachable, "kafka.bootstrap.servers"),
    ],
)
def test_errors_say_what_was_done_and_what_to_do(error: Exception, kind: type[ConnectorError], words: str) -> None:
    explanation = explained(error, "writing batch 7")
    assert type(explanation) is kind
    assert "writing batch 7" in str(explanation) and words in str(explanation)


def test_what_is_explained_already_stays_as_it_is() -> None:
    error = NotOneWriter("two")
    assert explained(error, "anything") is error
