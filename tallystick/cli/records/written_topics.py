"""Topics and partitions to be read, as they are written: `orders`, `orders-3`, `orders:0,2`."""

from collections.abc import Iterable

from protocol.errors import ErrorCode
from tallystick.cli.written_places import existing, read_places
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError
from tallystick.inspection.places import Place

_NO_SUCH_TOPIC = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""A broker does not tell those who may not know of a topic that there is none."""


async def wanted_places(client: Client, written: Iterable[str]) -> list[Place]:
    """In order, each once. Where a topic has the whole name, `orders-3` is that topic. Raises `KafkaError` where there
    is none, `click.BadParameter`."""
    found: set[Place] = set()
    for one in written:
        found.update(await _places(client, one))
    return sorted(found)


async def _places(client: Client, written: str) -> list[Place]:
    try:
        return await existing(client, read_places([written]))
    except KafkaError as error:
        topic, _, number = written.rpartition("-")
        unknown = error.code in _NO_SUCH_TOPIC
        if not unknown or ":" in written or not topic or not (number.isascii() and number.isdecimal()):
            raise
    return await existing(client, {topic: frozenset([int(number)])})
