"""The topics that coordinators keep their state in, under Kafka's names for them."""

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
"""Clients never see this one."""
INTERNAL_TOPICS: Final = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))
"""Those that Metadata calls internal."""
OF_COORDINATORS = INTERNAL_TOPICS | {CLUSTER_METADATA}
"""Where nothing is written but by coordinators and the controller."""
