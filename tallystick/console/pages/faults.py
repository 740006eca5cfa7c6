"""Faults of a broker that was started to be controlled over HTTP: set and cleared.

Where visitors log in, this is for those who may alter the cluster: the HTTP side knows nothing of users. Where the
broker is not to be controlled there is no such page.
"""

from starlette.responses import Response

from tallystick.client.background import monotonic_s
from tallystick.console.reading.broker_http import BrokerHttp, HttpFailed
from tallystick.console.visit import NotThere, Visit
from tallystick.inspection.authorized import may_alter_cluster

_ASKED_EVERY_S = 30.0


async def show(visit: Visit) -> Response:
    """What is set, and which points there are."""
    return await _page(visit, await _side(visit))


async def change(visit: Visit) -> Response:
    """Set one, or clear all."""
    side, given = await _side(visit), dict(visit.form)
    try:
        if given.get("how") == "clear":
            await side.disarm()
            return visit.to("/faults", said="Nothing strikes any more.")
        await side.arm(_fault(given))
    except (HttpFailed, ValueError) as problem:
        return await _page(visit, side, status=400, refusal=str(problem))
    return visit.to("/faults", said=f"{given['point']} is set.")


async def is_offered(visit: Visit) -> bool:
    """Whether this visitor has such a page, asked now and then. Raises what the client raises."""
    side, session = visit.console.broker_http, visit.session
    if side is None or session is None:
        return False
    if monotonic_s() - session.faults_asked_s > _ASKED_EVERY_S:
        session.faults_asked_s = monotonic_s()
        try:
            session.has_faults = await side.armed() is not None and await _may_control(visit)
        except HttpFailed:
            session.has_faults = False
    return session.has_faults


async def _may_control(visit: Visit) -> bool:
    return not visit.console.options.asks_login or await visit.ask(may_alter_cluster)


async def _side(visit: Visit) -> BrokerHttp:
    side = visit.console.broker_http
    if side is None or not await is_offered(visit):
        raise NotThere("This broker was not started to be controlled over HTTP, or not by this user.")
    return side


async def _page(visit: Visit, side: BrokerHttp, *, status: int = 200, refusal: str = "") -> Response:
    armed = await side.armed()
    if armed is None:
        raise NotThere("This broker was not started to be controlled over HTTP.")
    return visit.page(
        "faults.html", status=status, armed=armed, hits=await side.hits(), given=visit.form, refusal=refusal
    )


def _fault(given: dict[str, str]) -> dict[str, object]:
    """In the words of docs/faults.md. Raises `ValueError`."""
    said: dict[str, object] = {"point": given.get("point", "").strip(), "action": given.get("action", "").strip()}
    if given.get("topic", "").strip():
        said["topic"] = given["topic"].strip()
    for name in ("partition", "at", "times"):
        text = given.get(name, "").strip()
        if text == "*" and name == "times":
            said[name] = None
        elif text:
            said[name] = int(text)
    return said
