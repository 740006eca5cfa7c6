"""What the source raises beside what all of the connector does: each says what happened and what to do."""

from spark_connector.errors import ConnectorError


class NoSuchTopic(ConnectorError):
    """A topic or partition that was named is not there."""


class DataLost(ConnectorError):
    """Offsets that were to be read are not in the log any more."""


class NoSuchTime(ConnectorError):
    """No record has the timestamp at which the read was to begin, or a later one."""


class CannotRead(ConnectorError):
    """The broker did not hand out the records in time, or what it handed out is not records."""


def data_lost(what: str) -> DataLost:
    """`what` has happened; what may be done about it."""
    return DataLost(
        f"{what}. Some data may have been missed: it was deleted (retention, DeleteRecords, the topic made anew) "
        "before it was read. To go on with what is there, set option failOnDataLoss to false."
    )
