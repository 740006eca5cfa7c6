"""The share partitions of a node, by group: made when a member first wants records, and let go with the last session of
their group, with their topic, or when they are fenced."""

from collections.abc import Callable, Iterable

from broker.partitions.partition import Partition
from broker.partitions.share.settings import ShareGroupSettings
from broker.partitions.share.share_partition import Own, SharePartition
from broker.process.environment import Environment
from coordinator.share_state.port import Persister

PartitionKey = tuple[bytes, int]
"""(topic id, index)"""


class SharePartitions:
    """See the head of this file."""

    def __init__(
        self,
        *,
        persister: Persister,
        settings_of: Callable[[str], ShareGroupSettings],
        environment: Environment,
        own: Own,
    ) -> None:
        self._persister = persister
        self.settings_of = settings_of
        self._environment = environment
        self._own = own
        self._groups: dict[str, dict[PartitionKey, SharePartition]] = {}
        self._watching: dict[SharePartition, Callable[[], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def of(self, group_id: str, partition: Partition) -> SharePartition:
        """That of a group, made where there is none. One that could not be begun with stays until somebody has been
        told."""
        known = self.find(group_id, (partition.topic_id, partition.index))
        if known is not None:
            if known.partition is partition:
                return known
            self.let_go(known)
        made = SharePartition(
            group_id,
            partition,
            persister=self._persister,
            settings=lambda: self.settings_of(group_id),
            environment=self._environment,
            own=self._own,
        )
        self._groups.setdefault(group_id, {})[partition.topic_id, partition.index] = made
        self._watching[made] = lambda: self._moved(made)
        partition.watch(self._watching[made])
        made.watch(self._watching[made])
        return made

    def find(self, group_id: str, key: PartitionKey) -> SharePartition | None:
        return self._groups.get(group_id, {}).get(key)

    async def session_ended(self, group_id: str, member_id: str, keys: Iterable[PartitionKey]) -> None:
        """A member has left: what it was handed goes back."""
        slice_ = self._environment.time_slice()
        for key in list(keys):
            known = self.find(group_id, key)
            if known is not None:
                await known.release(member_id)
            await slice_.give_way()

    def let_go_group(self, group_id: str) -> None:
        """Nobody of the group is here any more."""
        for known in list(self._groups.get(group_id, {}).values()):
            self.let_go(known)

    def let_go(self, known: SharePartition) -> None:
        """Whoever wants it next begins with what is kept."""
        key = (known.partition.topic_id, known.partition.index)
        group = self._groups.get(known.group_id, {})
        if group.get(key) is not known:
            return
        del group[key]
        if not group:
            del self._groups[known.group_id]
        known.partition.unwatch(self._watching.pop(known))
        known.fence()

    def _moved(self, known: SharePartition) -> None:
        if known.partition.discarded or known.is_fenced:
            self.let_go(known)
