"""Topics: the list, searched and paged here and not in the browser, and one of them with its partitions."""

from dataclasses import dataclass

from starlette.responses import Response

from tallystick.administration import topics as administration
from tallystick.administration.configs import TOPIC, configs_of
from tallystick.client.client import Client
from tallystick.console.cluster import TopicLine
from tallystick.console.reading.sampling import settled_ends
from tallystick.console.visit import Visit
from tallystick.inspection.places import Ends, Failed, Place
from tallystick.inspection.stuck import Cause, Held, Holder, ending_words, held

ON_A_PAGE = 50
ASKED_PARTITIONS = 2000
"""Of so many partitions a page asks where they begin and end."""


@dataclass(frozen=True, slots=True)
class Row:
    """A topic in the list. Its offsets are None where its page has too many partitions."""

    topic: TopicLine
    offsets: int | None
    held: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Partitions whose readers of committed records wait for the same transaction."""

    holder: Holder | None
    """None: it has ended meanwhile."""
    words: list[str] | None
    """The command that ends it."""
    held: list[Held]


async def listed(visit: Visit) -> Response:
    """By name, fifty at a time."""
    wanted, number = visit.word("q").lower(), max(1, visit.number("page") or 1)
    with_internal = bool(visit.word("internal"))
    known = [one for one in await visit.cluster.topics() if with_internal or not one.is_internal]
    found = [one for one in known if wanted in one.name.lower()]
    shown = found[(number - 1) * ON_A_PAGE : number * ON_A_PAGE]
    return visit.page(
        "topics.html",
        rows=await _rows(visit, shown),
        wanted=visit.word("q"),
        with_internal=with_internal,
        number=number,
        pages=max(1, -(-len(found) // ON_A_PAGE)),
        found=len(found),
        known=len(known),
    )


async def _rows(visit: Visit, shown: list[TopicLine]) -> list[Row]:
    wanted = [(one.name, number) for one in shown for number in range(one.partitions)]
    if len(wanted) > ASKED_PARTITIONS:
        return [Row(one, None, 0) for one in shown]
    failed: Failed = {}

    async def look(client: Client) -> dict[Place, Ends]:
        await client.metadata([one.name for one in shown])
        return await settled_ends(client, wanted, failed)

    ends = await visit.ask(look) if wanted else {}
    by_topic: dict[str, list[Ends]] = {}
    for (name, _), its in ends.items():
        by_topic.setdefault(name, []).append(its)
    return [_row(one, by_topic.get(one.name, [])) for one in shown]


def _row(topic: TopicLine, ends: list[Ends]) -> Row:
    return Row(
        topic,
        sum(one.high_watermark - one.start for one in ends),
        sum(one.last_stable_offset < one.high_watermark for one in ends),
    )


async def described(visit: Visit) -> Response:
    """Partitions, and why readers of some of them stand still."""
    name = visit.path("topic")
    failed: Failed = {}

    async def look(client: Client) -> tuple[administration.Topic, dict[Place, Ends], list[Held]]:
        client.forget()
        (topic,) = await administration.described(client, [name])
        wanted = [(name, one.number) for one in topic.partitions]
        ends = await settled_ends(client, wanted, failed)
        waiting = [place for place, its in ends.items() if its.last_stable_offset < its.high_watermark]
        return topic, ends, await held(client, waiting, failed)

    topic, ends, waiting = await visit.ask(look)
    return visit.page(
        "topic.html",
        topic=topic,
        topic_id=topic.written_id,
        ends={number: its for (_, number), its in ends.items()},
        held=len(waiting),
        waits=_waits(waiting),
        failed=[str(error) for _, error in sorted(failed.items())],
        tab="partitions",
    )


_KNOWN = frozenset({Cause.OPEN, Cause.DECIDED})


def _waits(waiting: list[Held]) -> list[Wait]:
    """By what is waited for: one transaction may hold many partitions. One that hangs is ended in each of them."""
    found: dict[object, Wait] = {}
    for one in waiting:
        holder = one.holders[0] if one.holders else None
        known = holder.transaction if holder is not None and holder.cause in _KNOWN else None
        key = known.transactional_id if known is not None else (one.place if holder is not None else None)
        words = None if holder is None else ending_words(holder, one.place)
        found.setdefault(key, Wait(holder, words, [])).held.append(one)
    return list(found.values())


async def configs(visit: Visit) -> Response:
    """All of them, with where their values come from."""
    name = visit.path("topic")

    async def look(client: Client) -> tuple[administration.Topic, list[object]]:
        (topic,) = await administration.described(client, [name])
        found = await configs_of(client, [(TOPIC, name)])
        return topic, list(found[TOPIC, name])

    topic, found = await visit.ask(look)
    return visit.page("topic_configs.html", topic=topic, configs=found, tab="configs", refusal="", given={})
