"""What reading by schemas raises: each says what happened and what to do."""

from spark_connector.errors import ConnectorError


class RegistryUnreachable(ConnectorError):
    """The registry did not answer, or answered nonsense."""


class NoSuchSchema(ConnectorError):
    """The registry does not know a subject or an id."""


class NoSuchType(ConnectorError):
    """A schema has something in it that has no type in Spark."""


class CannotDecode(ConnectorError):
    """A key or value is not what its schema says."""
