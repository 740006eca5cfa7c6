"""A partition of a node alone, as if several nodes led."""

from typing import Any

from broker.partitions.owned_partition import OwnedPartition
from broker.partitions.partition import Partition


def may_be_behind(partition: Partition, is_it: bool = True) -> None:
    """Whether somebody else may lead it by now."""
    owned: Any = partition
    owned.__class__ = OwnedPartition
    owned.may_be_behind = lambda: is_it
