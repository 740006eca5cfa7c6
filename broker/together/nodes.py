"""The nodes of one process: started together, and killed and started one by one for whoever controls it.

Rule 1. A node that is killed is over for the store in the same moment, as one is that was silent for long: the others
        take over with their next look. None is ever over because it was silent, for they are silent together.
Rule 2. One that is started again is a new incarnation, on the ports that it had.
Rule 3. A node that fails ends the process, as it does where it is the only one. One that a fault crashes is killed.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import BadListener, Endpoint
from broker.control.several import NodeSeen, Refused
from broker.coordination.coordinators import CoordinatorError
from broker.journal.journal import Journal, OfId
from broker.network.listeners import Bound, SocketSettings, bind_all, bind_in_a_row
from broker.network.server import backlog
from broker.process.environment import RealEnvironment
from broker.process.logging import EventLog
from broker.together.life import Crashed, Life, Surroundings
from storage.shared.memory_store import StoreInMemory

if TYPE_CHECKING:
    from broker.faults.control import Faults

_log = EventLog("nodes")


class NodesTogether:
    """See the head of this file; it is the `Several` of the commands. `on_failure` is called once."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: RealEnvironment,
        *,
        faults: "Faults | None",
        traced: Callable[[str, OfId], None] | None,
        on_failure: Callable[[], None],
    ) -> None:
        self._config = config
        numbered = [config.of_node(number) for number in range(config.node_count)]
        self._configs = {one.node_id: one for one in numbered}
        budget_bytes = config.get_int("tallystick.journal.bytes")
        is_read = budget_bytes > 0 and (faults is not None or traced is not None)
        journal = Journal(environment.wall_ms, budget_bytes) if is_read else None
        # A clock that is moved for a test would let all of them be silent.
        store = StoreInMemory(lambda: RealEnvironment.monotonic_ms(environment))
        self._around = Surroundings(environment, store, faults, journal, traced)
        self._on_failure = on_failure
        self._places: dict[int, list[Endpoint]] = {}
        """Where each listens, or did."""
        self._lives: dict[int, Life] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.failure: BaseException | None = None

    async def start(self) -> list[Endpoint]:
        """All of them; returns where they serve, by node. Raises `BadListener` and what the start of a node raises."""
        rows = bind_in_a_row(self._config.listeners, self._settings, len(self._configs))
        by_node = dict(zip(self._configs, rows, strict=True))
        self._places = {node_id: [bound.endpoint for bound in row] for node_id, row in by_node.items()}
        await asyncio.gather(*(self._begin(node_id, row) for node_id, row in by_node.items()))
        return [endpoint for places in self._places.values() for endpoint in places]

    async def stop(self, hurry: asyncio.Event) -> None:
        """All of them. What they have is gone with the process: nothing is written down."""
        lives = list(self._lives.values())
        if self.failure is None:
            await asyncio.gather(*(life.drain(hurry) for life in lives))
        for life in lives:
            await life.end()

    async def _begin(self, node_id: int, listening: Sequence[Bound]) -> None:
        life = Life(self._configs[node_id], self._around, on_failure=self._failed, on_crash=self._crashed)
        try:
            await life.start(listening)
        except BaseException:
            for bound in listening:
                bound.close()
            await life.end()
            raise
        self._lives[node_id] = life
        asyncio.get_running_loop().set_exception_handler(self._uncaught)

    def _uncaught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What no task of any node caught; each node has asked for it when it began. Of one that is over, what it had
        begun, and the refusals that nobody waits for any more."""
        if isinstance(context.get("exception"), Crashed | CoordinatorError):
            return
        for life in self._lives.values():
            life.node.loop_exception(loop, context)
            return
        loop.default_exception_handler(context)

    def _crashed(self, life: Life) -> None:
        node_id = life.config.node_id
        _log.warning("a fault has ended a node", node=node_id)
        if self._lives.get(node_id) is life:
            del self._lives[node_id]
        ending = asyncio.get_running_loop().create_task(life.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _failed(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            self._on_failure()

    @property
    def _settings(self) -> SocketSettings:
        return SocketSettings.of(self._config, backlog(self._config))

    # -- for whoever controls the process ----------------------------------------------------------------------

    def services(self) -> list[Services]:
        """Those of the nodes that run, by id."""
        return [self._lives[node_id].services for node_id in sorted(self._lives)]

    def seen(self) -> list[NodeSeen]:
        """All nodes, by id."""
        return [
            NodeSeen(node_id, node_id in self._lives, ",".join(str(one) for one in self._places[node_id]))
            for node_id in sorted(self._configs)
        ]

    async def kill(self, node_id: int) -> None:
        """Rule 1. Raises `Refused`."""
        if node_id not in self._configs:
            raise Refused(f"there is no node {node_id}; there are {', '.join(map(str, sorted(self._configs)))}")
        life = self._lives.pop(node_id, None)
        if life is None:
            raise Refused(f"node {node_id} does not run")
        _log.warning("a node is killed", node=node_id)
        await life.end()

    async def start_again(self, node_id: int) -> None:
        """Rule 2; returns when it serves. Raises `Refused`."""
        if node_id in self._lives:
            raise Refused(f"node {node_id} runs")
        try:
            listening = bind_all(self._places[node_id], self._settings)
        except KeyError:
            raise Refused(f"there is no node {node_id}") from None
        except BadListener as taken:
            raise Refused(str(taken)) from taken
        beginning = asyncio.create_task(self._begin(node_id, listening))
        await asyncio.wait([beginning])
        if beginning.cancelled():
            raise Refused(f"a fault has ended node {node_id} while it started")
        await beginning
