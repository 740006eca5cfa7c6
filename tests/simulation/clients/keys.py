"""Keys of records: in the compacted topic each has one of a few, and some say that their key is gone."""

from random import Random
from typing import TypedDict

from tests.simulation.plan_clients import CHURNED, COMPACTED

KEYS = 4


class Keyed(TypedDict):
    """What `History.write` gets of it."""

    key: bytes | None
    tombstone: bool


def keyed(random: Random, topic: str) -> Keyed:
    if topic not in (COMPACTED, CHURNED):
        return Keyed(key=None, tombstone=False)
    return Keyed(key=b"k%d" % random.randrange(KEYS), tombstone=random.random() < 0.15)
