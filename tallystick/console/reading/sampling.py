"""Counters of a cluster, a topic or a group at one moment. Differences of two are rates."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode
from tallystick.client.background import monotonic_s
from tallystick.client.client import EARLIEST, LATEST, Client
from tallystick.client.errors import KafkaError, UnsupportedByBroker
from tallystick.inspection.lag import Standing, lags
from tallystick.inspection.places import Ends, Failed, Place, offsets_at, places
from tallystick.inspection.transactions import DECIDED, ONGOING, listed

COUNTED_RECORDS = 10_000
"""Of one partition, in each look at a group."""
COUNTED_BYTES = 8 << 20
"""Of all its partitions: what is left is told in offsets, and as `many` records."""
_NOT_FOR_US = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})


@dataclass(frozen=True, slots=True)
class Written:
    """What lies in some partitions."""

    at_s: float
    end: int
    """The sum of the offsets behind their last records: markers of transactions count, too."""
    held: int
    """Partitions whose readers of committed records stand still."""
    partitions: int
    open_transactions: int | None
    """None where nobody may be told."""


@dataclass(frozen=True, slots=True)
class Behind:
    """How far a group is behind."""

    at_s: float
    offsets: int
    records: int | None
    """Without control records; None where they were too many to be counted."""
    held: int
    committed: int


async def written(client: Client, topics: Sequence[str] | None = None) -> Written:
    """Of some topics, or of all that are not internal."""
    client.forget()
    failed: Failed = {}
    wanted: list[Place] = await places(client, topics)
    high = await offsets_at(client, wanted, LATEST, failed)
    stable = await offsets_at(client, high, LATEST, failed, read_committed=True)
    held = sum(stable[place] < high[place] for place in stable)
    open_ones = await _open_transactions(client)
    return Written(monotonic_s(), sum(high.values()), held, len(high), open_ones)


async def settled_ends(client: Client, wanted: Collection[Place], failed: Failed) -> dict[Place, Ends]:
    """Where partitions begin and end. Here the end is asked for before the last stable offset: what is written in
    between does not look as if it were held."""
    high = await offsets_at(client, wanted, LATEST, failed)
    stable = await offsets_at(client, high, LATEST, failed, read_committed=True)
    start = await offsets_at(client, stable, EARLIEST, failed)
    return {place: Ends(start[place], min(stable[place], high[place]), high[place]) for place in start}


async def _open_transactions(client: Client) -> int | None:
    try:
        found = await listed(client)
    except UnsupportedByBroker:
        return None
    except KafkaError as error:
        if error.code in _NOT_FOR_US:
            return None
        raise
    return sum(one.state == ONGOING or one.state in DECIDED for one in found)


async def behind(client: Client, group: str) -> Behind:
    """Of all that the group has committed an offset of."""
    failed: Failed = {}
    found = await lags(client, group, count_up_to=COUNTED_RECORDS, most_bytes=COUNTED_BYTES, failed=failed)
    counted = [one.records for one in found if one.standing is not Standing.NO_TOPIC]
    records = None if None in counted else sum(one for one in counted if one is not None)
    return Behind(
        monotonic_s(),
        sum(one.offsets for one in found),
        records,
        sum(one.held > 0 for one in found),
        sum(one.committed for one in found),
    )
