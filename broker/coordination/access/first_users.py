"""The users that a cluster begins with (`--add-scram`): written where there are none yet, so that one that was removed
does not come back with the next start."""

from broker.config.broker_config import BrokerConfig
from broker.coordination.cluster import Cluster
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.security.sasl.first_users import KEY, read_first_users

_log = EventLog("sasl")


class FirstUsers:
    """What the settings say. Raises `ConfigError` where that cannot be read."""

    def __init__(self, config: BrokerConfig, environment: Environment) -> None:
        text = config.get(KEY)
        self._wanted = read_first_users(text) if isinstance(text, str) else []
        self._environment = environment

    async def add(self, cluster: Cluster) -> None:
        """Before anybody is served. A password takes milliseconds, off the loop."""
        if not self._wanted:
            return
        if not cluster.image.scram_users.kept:
            wanted, draw = self._wanted, self._environment.random_bytes
            made = await self._environment.run_beside(lambda: [one.made(draw) for one in wanted])
            await cluster.ask(lambda machine, ticket: machine.add_first_users(ticket, made))
            _log.info("the first users were added", users=len(made))
        elif absent := sum((one.name, one.mechanism) not in cluster.image.scram_users.kept for one in self._wanted):
            _log.warning("first users are not added where there are users already", absent=absent)
