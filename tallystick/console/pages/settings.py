"""Settings of the brokers, and those for all of them."""

from starlette.responses import Response

from tallystick.administration.configs import BROKER, CLUSTER_WIDE, Config, broker_names, configs_of
from tallystick.client.client import Client
from tallystick.console.pages.topic_changes import change as change_config
from tallystick.console.visit import NotThere, Visit


async def show(visit: Visit) -> Response:
    """Of one broker: the first, where none is named."""
    wanted, only_set = visit.word("q").lower(), bool(visit.word("set"))

    async def look(client: Client) -> tuple[list[str], str, list[Config]]:
        names = await broker_names(client)
        name = visit.word("broker") or names[0]
        if name not in names:
            raise NotThere(f"There is no broker {name!r}.")
        return names, name, (await configs_of(client, [(BROKER, name)]))[BROKER, name]

    names, name, known = await visit.ask(look)
    found = [one for one in known if wanted in one.name and not (only_set and one.is_default)]
    return visit.page(
        "settings.html",
        brokers=names,
        broker=name,
        configs=found,
        known=len(known),
        wanted=visit.word("q"),
        only_set=only_set,
    )


async def change(visit: Visit) -> Response:
    """Of one broker, or of all."""
    name = visit.form.get("broker", "")
    whose = CLUSTER_WIDE if visit.form.get("whose") == "all" else name
    await change_config(visit, (BROKER, whose))
    return visit.to("/settings", broker=name, said=f"{visit.form.get('config', '')} is changed.")
