"""What a test may do to the nodes of a broker that is several: kill one, start it again, move what one leads."""

from typing import Any


class NodeControl:
    """Of a broker that was started with `nodes` and `control`; everything raises `NotDone` otherwise, and where a node
    or a partition is not there."""

    def _ask(self, command: str, **fields: object) -> Any:
        raise NotImplementedError

    def node_addresses(self) -> dict[int, str]:
        """Where each node that runs is reached, by its id; those that were killed are left out."""
        return {one["node"]: one["address"] for one in self._ask("nodes") if one["runs"]}

    def kill_node(self, node: int) -> None:
        """What `kill -9` does to one node. The others go on, and lead within a moment what it led."""
        self._ask("kill_node", node=node)

    def start_node(self, node: int) -> None:
        """Start a node that was killed, with its id and address. It serves when this returns, and is given its share of
        what there is to lead."""
        self._ask("start_node", node=node)

    def start_nodes(self) -> None:
        """All that were killed."""
        for one in self._ask("nodes"):
            if not one["runs"]:
                self.start_node(one["node"])

    def controller(self) -> int:
        """The node that controls the cluster."""
        node: int = self._ask("controller")
        return node

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition."""
        node: int = self._ask("leader", topic=topic, partition=partition)
        return node

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Have another node lead a partition. It does when this returns, and clients that ask the one before are told
        NOT_LEADER_OR_FOLLOWER. It stays there until nodes come or go."""
        self._ask("move_leader", topic=topic, partition=partition, to=to)

    def coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> int:
        """The node that coordinates a transactional id, or a group."""
        node: int = self._ask("coordinator", **_whose(transactional_id, group))
        return node

    def move_coordinator(self, *, to: int, transactional_id: str | None = None, group: str | None = None) -> None:
        """Have another node coordinate it, and whatever else is in the same partition of the internal topic. It does
        when this returns, and clients that ask the one before are told NOT_COORDINATOR."""
        self._ask("move_coordinator", **_whose(transactional_id, group), to=to)


def _whose(transactional_id: str | None, group: str | None) -> dict[str, str]:
    if (transactional_id is None) == (group is None):
        raise ValueError("either transactional_id or group")
    if group is not None:
        return {"kind": "group", "key": group}
    return {"kind": "transaction", "key": transactional_id or ""}
