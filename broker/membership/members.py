"""Who lives, who leads the metadata, and what of it this node knows: looked at some times a second.

Rule 1. Who was silent for `broker.session.timeout.ms`, by the store's clock, is fenced by whoever sees it first. Safety
        does not rest on it: the store refuses what a fenced node commits. Who starts, or comes back to a store that it
        did not reach, or that has failed over and lost when somebody was heard, gives the others as long again: perhaps
        nobody could say that it lives.
Rule 2. The owner of the metadata log is the controller. Where it does not live any more, any node claims the log under
        the next epoch; one of them does. It has followed to the end of the log then, and writes on.
Rule 3. The controller writes down who lives (registrations), and gives partitions to who lives. A node that has begun
        another life gets its partitions again, under later epochs.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from broker.coordination.cluster import METADATA_CONFIG, Cluster
from broker.coordination.coordinators import CoordinatorError
from broker.membership.about import About, incarnation_id
from broker.membership.following import Following
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.bringing import Own
from broker.shared.partitions import SharedPartitions
from broker.shared.patience import Patience
from coordinator.cluster.coordinator import Registration
from coordinator.cluster.leaders import NOBODY
from coordinator.cluster.topic_rules import METADATA_TOPIC_ID
from protocol.internal_topics import CLUSTER_METADATA
from storage.log import LogDamaged, StorageFailed
from storage.shared.shared_log import SharedLog
from storage.shared.store import (
    Fenced,
    FoundLog,
    Incarnation,
    Member,
    NotOwned,
    SharedStore,
    StoreRefused,
    StoreUnreachable,
)

LOOK_S = 0.2
MOVED_AT_ONCE = 500
"""Partitions whose leaders change in one step."""

_log = EventLog("membership")


class Membership:
    """That of one node. `on_lead` is awaited once, when it has become the controller; `fail` ends the node."""

    def __init__(
        self,
        store: SharedStore,
        who: Incarnation,
        cluster: Cluster,
        partitions: SharedPartitions,
        environment: Environment,
        *,
        silent_ms: Callable[[], int],
        own: Own,
        on_lead: Callable[[], Awaitable[None]],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._who = who
        self._cluster = cluster
        self._partitions = partitions
        self._environment = environment
        self._silent_ms = silent_ms
        self._own = own
        self._on_lead = on_lead
        self._fail = fail
        self._following = Following(store, who, cluster, environment)
        self._patience = Patience("nobody is seen of the other nodes")
        self._one_look = asyncio.Lock()
        self._is_settled = False
        """Whether everything is led by who lives, as far as this node has decided it."""
        self._is_resting = False
        self._looked_ms: int | None = None
        """When the members were seen last, by the monotonic clock; None before the first time."""
        self._judges_ms = 0
        """From when on others can be silent for too long."""
        self._heard_ms: dict[Incarnation, int] = {}
        """When each was heard last, about, by the same clock."""
        self.controller_id = NOBODY
        self._telling = False
        cluster.on_durable(self._tell)
        self.looked_ms = environment.monotonic_ms()
        """When it was begun to look, of the last time that all was seen."""

    async def wait_until_registered(self) -> None:
        """Until the metadata, as far as it is durable, knows of this life. Raises `StorageFailed`."""
        while not self._is_registered():
            with contextlib.suppress(CoordinatorError):  # What was not written is tried again.
                await self.look()
            if not self._is_registered():
                await asyncio.sleep(LOOK_S)

    def _is_registered(self) -> bool:
        known = self._cluster.image.brokers.get(self._who.node_id)
        return known is not None and known.registration.incarnation_id == incarnation_id(self._who)

    async def keep_looking(self) -> None:
        """For as long as the node lives."""
        while True:
            await self._store.wait_until_told(LOOK_S)
            try:
                await self.look()
            except StorageFailed as failure:
                self._fail(failure)
                return
            except CoordinatorError as refused:  # It is tried again.
                _log.info("the metadata was not changed", reason=refused)
            except Exception as error:  # noqa: BLE001  a node that sees nobody any more is of no use
                _log.bug("the other nodes cannot be seen any more", error)
                self._fail(error)
                return

    async def caught_up(self) -> None:
        """Until this node knows what is durable by now. Raises `StorageFailed`. Who waits may be gone before that: what
        is followed is followed to its end."""
        if not self._cluster.leads:
            await asyncio.shield(self._own(self.look()))

    def rest(self) -> None:
        """Decide nothing any more: this node is about to leave, and its logs are about to be closed."""
        self._is_resting = True

    async def look(self) -> None:
        """See who lives, and follow, or lead. Raises `StorageFailed`."""
        async with self._one_look:
            try:
                asked_ms = self._environment.monotonic_ms()
                living = await self._living()
                if not self._cluster.leads:
                    living = await self._follow(living)
                if self._cluster.leads and not self._is_resting:
                    await self._control(living)
                self.looked_ms = asked_ms
            except (Fenced, StoreRefused) as over:
                raise StorageFailed(str(over)) from over
            except LogDamaged as damaged:
                raise StorageFailed(str(damaged)) from damaged

    async def _living(self) -> list[Member]:
        members = await self._patience.until_reached(self._store.members)
        may_judge = self._may_judge(members)
        living: list[Member] = []
        for one in members:
            is_silent = may_judge and one.who != self._who and one.silent_ms > self._silent_ms()
            if is_silent and await self._is_fenced(one):
                _log.warning("a node was silent for too long, and is fenced", silent=one.who.node_id)
                continue
            living.append(one)
            may_judge = may_judge and self._environment.monotonic_ms() >= self._judges_ms
        return living

    def _may_judge(self, members: Sequence[Member]) -> bool:
        """Whether the others could be heard all the time, and none of it is lost. Called when they have been seen."""
        now_ms, silent_ms = self._environment.monotonic_ms(), self._silent_ms()
        heard_ms = {one.who: now_ms - one.silent_ms for one in members}
        is_lost = any(self._heard_ms.get(who, at_ms) - at_ms > silent_ms // 4 for who, at_ms in heard_ms.items())
        if is_lost or self._looked_ms is None or now_ms - self._looked_ms > silent_ms // 2:
            self._judges_ms = now_ms + silent_ms
        self._heard_ms = heard_ms
        self._looked_ms = now_ms
        return now_ms >= self._judges_ms

    async def _is_fenced(self, one: Member) -> bool:
        """Asked once. A store that does not answer may fail over, and lose what this node has not seen: that the other
        was heard meanwhile."""
        silent_ms = self._silent_ms()
        try:
            return await self._store.fence(self._who, one.who, silent_ms)
        except StoreUnreachable:
            self._judges_ms = self._environment.monotonic_ms() + silent_ms
            return False

    # -- the metadata ----------------------------------------------------------------------------------------

    async def _follow(self, living: list[Member]) -> list[Member]:
        """Returns who lives, seen again where that matters."""
        found = await self._following.look()
        if found is None:
            await self._following.begin_anew()
        else:
            await self._following.take(found.log)
        if found is not None and not any(one.who == found.owner for one in living):
            living = await self._living()  # It may have come, and become the owner, since they were looked at.
        if found is not None and any(one.who == found.owner for one in living):
            self.controller_id = found.owner.node_id
            return living
        self.controller_id = NOBODY
        if not self._is_resting:
            await self._take_over(found)
        return living

    async def _take_over(self, found: FoundLog | None) -> None:
        """Rule 2."""
        epoch = 0 if found is None else found.log.owner_epoch + 1
        try:
            await self._partitions.wait_until_prepared(CLUSTER_METADATA, METADATA_TOPIC_ID, 0, epoch)
        except NotOwned:
            return
        log = self._partitions.open(CLUSTER_METADATA, METADATA_TOPIC_ID, 0, METADATA_CONFIG.log)
        assert isinstance(log, SharedLog), "in a shared store all logs are"
        while self._cluster.durable_offset < log.end_offset:  # Committed by the one before, until it was claimed.
            await self._following.take(log.owned)
        lost = StorageFailed("what is in memory of the metadata cannot be trusted any more")
        await self._cluster.lead(log, epoch, lambda: self._fail(lost))
        self.controller_id = self._who.node_id
        _log.info("this node is the controller", node=self._who.node_id, epoch=epoch)
        await self._partitions.wait_until_tidy(self._cluster.image.by_id)
        await self._on_lead()

    def _tell(self) -> None:
        """The others are to hear soon of what the controller has written."""
        if self._cluster.leads and not self._telling:
            self._telling = True
            self._own(self._told())

    async def _told(self) -> None:
        self._telling = False
        with contextlib.suppress(StoreUnreachable, StoreRefused):  # They look anyway.
            await self._store.tell()

    async def _control(self, living: Sequence[Member]) -> None:
        """Rule 3."""
        cluster, brokers = self._cluster, self._cluster.image.brokers
        lives = {one.who.node_id: one for one in living}
        for node_id in [node_id for node_id, one in brokers.items() if not one.fenced and node_id not in lives]:
            _log.info("a node has left", left=node_id)
            self._is_settled = False
            await cluster.ask(lambda machine, ticket: machine.end_life(ticket, node_id))  # noqa: B023
        for node_id, member in lives.items():
            known = brokers.get(node_id)
            if known is None or known.fenced or known.registration.incarnation_id != incarnation_id(member.who):
                self._is_settled = False
                await self._register(member)
        while not self._is_settled:
            moved = await cluster.ask(
                lambda machine, ticket: machine.move_leaders(ticket, sorted(lives), MOVED_AT_ONCE)
            )
            self._is_settled = not moved

    async def _register(self, member: Member) -> None:
        about, node_id = About.from_bytes(member.about), member.who.node_id
        registration = Registration(
            node_id,
            incarnation_id(member.who),
            self._cluster.image.epoch + 1,
            about.rack,
            about.endpoints,
            about.directory,
        )
        await self._cluster.ask(lambda machine, ticket: machine.register(ticket, registration))
        _log.info("a node has come", node=node_id, epoch=registration.epoch)
