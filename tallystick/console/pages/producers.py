"""Who writes to a topic: producers with ids, as the leaders of its partitions know them (KIP-664)."""

from starlette.responses import Response

from protocol.messages.transactions import ProducerState
from tallystick.administration import topics as administration
from tallystick.client.client import Client
from tallystick.console.visit import Visit
from tallystick.inspection.places import Failed, Place
from tallystick.inspection.transactions import producers_of

MOST = 500


async def show(visit: Visit) -> Response:
    """By partition; those with an open transaction first."""
    name = visit.path("topic")
    failed: Failed = {}

    async def look(client: Client) -> tuple[administration.Topic, dict[Place, list[ProducerState]]]:
        (topic,) = await administration.described(client, [name])
        wanted = [(name, one.number) for one in topic.partitions]
        return topic, await producers_of(client, wanted, failed)

    topic, found = await visit.ask(look)
    rows = [(number, one) for (_, number), ones in sorted(found.items()) for one in ones]
    rows.sort(key=lambda row: (row[1].current_txn_start_offset < 0, row[0], row[1].producer_id))
    return visit.page(
        "producers.html",
        topic=topic,
        rows=rows[:MOST],
        known=len(rows),
        failed=[str(error) for _, error in sorted(failed.items())],
        tab="producers",
    )
