"""Quotas in force: what the metadata log says, as far as it is durable."""

from broker.config.broker_config import BrokerConfig
from broker.coordination.cluster import Cluster
from broker.process.environment import Environment
from broker.security.quotas.client_quotas import ClientQuotas
from broker.security.quotas.connection_rates import ConnectionRates
from broker.security.quotas.rates import Windows
from coordinator.cluster.keys.limit_keys import canonical_address
from coordinator.cluster.quotas import CONNECTION_CREATION_RATE, IP


def follow_quotas(
    cluster: Cluster, config: BrokerConfig, environment: Environment
) -> tuple[ClientQuotas, ConnectionRates]:
    """Those of users and client ids, and those of addresses. A change is in force before the request for it is
    answered."""
    windows = Windows(config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds") * 1000)
    rates = ConnectionRates(windows, environment.monotonic_ms)
    quotas = ClientQuotas(
        windows,
        Windows(
            config.get_int("controller.quota.window.num"), config.get_int("controller.quota.window.size.seconds") * 1000
        ),
        environment.monotonic_ms,
        environment.time_slice().clock,
    )

    def follow() -> None:
        durable, changed = cluster.durable_offset, cluster.image.quotas.changed
        while changed and changed[0][0] < durable:
            _, entity, values = changed.popleft()
            names = dict(entity)
            if IP not in names:
                quotas.set(names, values)
            elif (address := names[IP]) is None or (address := canonical_address(address)):
                rates.set(address, values.get(CONNECTION_CREATION_RATE))

    cluster.on_durable(follow)
    follow()
    return quotas, rates
