"""What Prometheus scrapes."""

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response

from broker.http.operation import Operation
from broker.http.seen_broker import SeenBroker

PATH = "/metrics"


async def scrape(broker: SeenBroker, request: Request) -> Response:
    """All of them, in Prometheus's text format."""
    return Response(await broker.collecting.scrape(broker), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


ROUTES = (Operation("GET", PATH, scrape, "Metrics for Prometheus", media_type="text/plain", refusals=(503,)),)
