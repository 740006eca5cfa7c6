"""Groups: the list, and one of them with members and lag, in offsets and in records that it would be shown."""

from starlette.responses import Response

from tallystick.client.client import Client
from tallystick.console.reading.sampling import COUNTED_BYTES, COUNTED_RECORDS
from tallystick.console.visit import NotThere, Visit
from tallystick.inspection.groups import CONSUMERS, Group
from tallystick.inspection.groups import described as describe
from tallystick.inspection.groups import listed as list_groups
from tallystick.inspection.lag import Lag, lags
from tallystick.inspection.places import Failed

ON_A_PAGE = 100


async def listed(visit: Visit) -> Response:
    """By name, searched here."""
    wanted, number = visit.word("q").lower(), max(1, visit.number("page") or 1)
    known = await visit.ask(list_groups)
    found = [one for one in known if wanted in one.name.lower()]
    return visit.page(
        "groups.html",
        groups=found[(number - 1) * ON_A_PAGE : number * ON_A_PAGE],
        wanted=visit.word("q"),
        number=number,
        pages=max(1, -(-len(found) // ON_A_PAGE)),
        found=len(found),
        known=len(known),
    )


async def described(visit: Visit) -> Response:
    """Of consumers; of the other kinds it is said what they are."""
    name = visit.called("name")
    failed: Failed = {}

    async def look(client: Client) -> tuple[str, Group | None, list[Lag]]:
        known = next((one for one in await list_groups(client) if one.name == name), None)
        if known is None:
            raise NotThere(f"There is no group {name!r}.")
        if known.kind not in CONSUMERS:
            return known.kind, None, []
        return (
            known.kind,
            await describe(client, name),
            await lags(client, name, count_up_to=COUNTED_RECORDS, most_bytes=COUNTED_BYTES, failed=failed),
        )

    kind, group, behind = await visit.ask(look)
    return visit.page(
        "group.html",
        name=name,
        kind=kind,
        group=group,
        lags=behind,
        offsets=sum(one.offsets for one in behind),
        records=None if any(one.records is None and one.ends for one in behind) else _sum(behind),
        owners={place: member for member in group.members for place in member.has} if group is not None else {},
        failed=[str(error) for _, error in sorted(failed.items())],
    )


def _sum(behind: list[Lag]) -> int:
    return sum(one.records or 0 for one in behind)
