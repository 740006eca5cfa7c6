"""The first page: brokers, how much there is of what, and what stands still."""

from starlette.responses import Response

from tallystick.console.visit import Visit


async def show(visit: Visit) -> Response:
    """Counters follow as events."""
    topics = await visit.cluster.topics()
    cluster = await visit.ask(lambda client: client.metadata([]))
    return visit.page(
        "overview.html",
        cluster_id=cluster.cluster_id,
        brokers=sorted(cluster.brokers, key=lambda one: one.node_id),
        controller=cluster.controller_id,
        topics=sum(not one.is_internal for one in topics),
        internal=sum(one.is_internal for one in topics),
        partitions=sum(one.partitions for one in topics if not one.is_internal),
    )
