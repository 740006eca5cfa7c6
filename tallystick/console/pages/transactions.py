"""Transactions: the list, one of them with its steps, and the two ways to end one that is not one's own.

Both ways are asked twice: the one fences a producer that may be alive, the other writes what nobody takes back.
"""

from starlette.responses import Response

from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.console.reading.broker_http import HttpFailed
from tallystick.console.reading.timeline import Picture, picture
from tallystick.console.visit import NotThere, Visit
from tallystick.inspection import transactions as of_cluster
from tallystick.inspection.transactions import DECIDED, ONGOING, Described, Listed

ON_A_PAGE = 100


async def listed(visit: Visit) -> Response:
    """Those that hold something first; then by name."""
    wanted, number = visit.word("q").lower(), max(1, visit.number("page") or 1)
    open_only = bool(visit.word("open"))
    known = await visit.ask(of_cluster.listed)
    found = [one for one in known if wanted in one.transactional_id.lower() and (not open_only or _is_open(one))]
    found.sort(key=lambda one: (not _is_open(one), one.transactional_id))
    return visit.page(
        "transactions.html",
        transactions=found[(number - 1) * ON_A_PAGE : number * ON_A_PAGE],
        wanted=visit.word("q"),
        open_only=open_only,
        number=number,
        pages=max(1, -(-len(found) // ON_A_PAGE)),
        found=len(found),
        known=len(known),
        open_ones=sum(map(_is_open, known)),
    )


def _is_open(one: Listed) -> bool:
    return one.state == ONGOING or one.state in DECIDED


async def described(visit: Visit) -> Response:
    """What its coordinator knows of it, and its steps where a broker has noted them: they are shown to those who may
    describe it, for the HTTP side knows nothing of users."""
    found = await _found(visit)
    drawn, said = await _timeline(visit, found.transactional_id)
    return visit.page(
        "transaction.html",
        transaction=found,
        left_ms=found.left_ms(now_ms()),
        picture=drawn,
        said_of_timeline=said,
    )


async def _timeline(visit: Visit, transactional_id: str) -> tuple[Picture | None, str]:
    """A picture, or why there is none."""
    http = visit.console.broker_http
    if http is None:
        return None, ""
    try:
        said = await http.timeline(transactional_id)
        drawn = None if said is None else picture(said)
    except HttpFailed as problem:
        return None, f"There is no timeline: {problem}."
    except (KeyError, TypeError, ValueError, IndexError):
        return None, "The broker tells the timeline in words that this console does not know."
    return drawn, "" if said is None or drawn is not None else "The broker has noted no step of it since its start."


async def _found(visit: Visit) -> Described:
    name = visit.called("id")
    found = await visit.ask(lambda client: of_cluster.described(client, name))
    if found is None:
        raise NotThere(f"No coordinator knows the transactional id {name!r}.")
    return found


async def confirm(visit: Visit) -> Response:
    """What will happen, before it does."""
    return visit.page("abort_transaction.html", transaction=await _found(visit))


async def abort(visit: Visit) -> Response:
    """By its coordinator."""
    name = visit.called("id")
    ended = await visit.ask(lambda client: of_cluster.force_terminate(client, name))
    said = "Nothing of it was open." if ended is None else "It is ended, and its producer is fenced."
    return visit.to("/transaction", id=name, said=said)


async def confirm_in_partition(visit: Visit) -> Response:
    """Of a transaction that no coordinator knows."""
    return visit.page(
        "abort_in_partition.html",
        topic=visit.path("topic"),
        partition=visit.path_number("partition"),
        start=_start(visit),
    )


async def abort_in_partition(visit: Visit) -> Response:
    """A marker in this partition, and nowhere else."""
    place, start = (visit.path("topic"), visit.path_number("partition")), _start(visit)

    async def end(client: Client) -> None:
        await of_cluster.abort_in_partition(client, place, start)

    await visit.ask(end)
    return visit.to(f"/topics/{place[0]}", said=f"The transaction from offset {start} on is aborted.")


def _start(visit: Visit) -> int:
    start = visit.number("start")
    if start is None:
        raise NotThere("Which transaction? The address names no offset.")
    return start
