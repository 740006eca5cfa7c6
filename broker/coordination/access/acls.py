"""The authorizer follows the ACLs of the metadata log, as far as they are durable, in slices of time."""

from collections import deque

from broker.config.broker_config import BrokerConfig
from broker.coordination.cluster import Cluster
from broker.process.environment import Environment
from broker.process.time_slice import TimeSlice
from broker.security.authorizer import Authorizer
from coordinator.cluster.acls import AclChange


class FollowedAcls:
    """The ACLs that are in force."""

    def __init__(self, cluster: Cluster, authorizer: Authorizer, environment: Environment) -> None:
        self._cluster = cluster
        self.authorizer = authorizer
        self._environment = environment
        self._changes: deque[AclChange] = deque()
        self._has_turn = False

    async def begin(self) -> None:
        """Take over what the log says. To be waited for before anybody is served."""
        table, time_slice = self._cluster.image.acls, self._environment.time_slice()
        table.changes = self._changes
        for acl in list(table.by_id.values()):
            self.authorizer.add(acl)
            await time_slice.give_way()
        self._cluster.on_durable(self._follow)

    async def wait_until_in_force(self) -> None:
        """Until what is durable now is what the authorizer goes by."""
        time_slice = self._environment.time_slice()
        while not self._take_over(time_slice):
            await time_slice.wait_for_turn()

    def _follow(self) -> None:
        if not self._has_turn:
            self._go_on(self._environment.time_slice())

    def _go_on(self, time_slice: TimeSlice) -> None:
        self._has_turn = not self._take_over(time_slice)
        if self._has_turn:
            time_slice.call_in_turn(lambda: self._go_on(time_slice))

    def _take_over(self, time_slice: TimeSlice) -> bool:
        """Whether that was all."""
        durable, changes, authorizer = self._cluster.durable_offset, self._changes, self.authorizer
        while changes and changes[0].offset < durable:
            change = changes.popleft()
            if change.is_there:
                authorizer.add(change.acl)
            else:
                authorizer.remove(change.acl)
            if time_slice.spent():
                return not (changes and changes[0].offset < durable)
        return True


def followed_acls(cluster: Cluster, config: BrokerConfig, environment: Environment) -> FollowedAcls | None:
    """None where no authorizer is set up: everybody may do everything."""
    if not config.get_str("authorizer.class.name"):
        return None
    super_users = (one.strip() for one in config.get_str("super.users").split(";"))
    allow_if_none = config.get_bool("allow.everyone.if.no.acl.found")
    return FollowedAcls(cluster, Authorizer(filter(None, super_users), allow_if_none=allow_if_none), environment)
