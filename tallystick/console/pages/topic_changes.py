"""Topics made, configured and deleted. What cannot be taken back is asked twice."""

from starlette.responses import Response

from tallystick.administration.configs import TOPIC, alter
from tallystick.administration.topics import create as make
from tallystick.administration.topics import delete as remove
from tallystick.client.errors import KafkaError
from tallystick.console.visit import Visit


async def form(visit: Visit) -> Response:
    """Of a new topic."""
    return visit.page("new_topic.html", given={}, refusal="")


async def create(visit: Visit) -> Response:
    """With as many partitions and replicas as the broker's settings say, where nothing else is said."""
    given = visit.form
    name = given.get("name", "").strip()
    try:
        counts = [_count(given.get(what, ""), most) for what, most in _COUNTED.items()]
        configs = _configs(given.get("configs", ""))
        await visit.ask(
            lambda client: make(client, name, partitions=counts[0], replication_factor=counts[1], configs=configs)
        )
    except (KafkaError, ValueError) as problem:
        return visit.page("new_topic.html", status=400, given=given, refusal=str(problem))
    visit.cluster.forget()
    return visit.to(f"/topics/{name}", said=f"Topic {name} is there.")


_COUNTED = {"partitions": (1 << 31) - 1, "replication_factor": (1 << 15) - 1}
"""With the largest numbers that can be said of them."""


def _count(text: str, most: int) -> int:
    if not text.strip():
        return -1
    if not text.strip().isdecimal():
        raise ValueError(f"{text!r} is no number")
    if len(text.strip()) > len(str(most)) or int(text) > most:
        raise ValueError(f"{text.strip()[:20]} is too many: {most} at most")
    return int(text)


def _configs(text: str) -> dict[str, str]:
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"{line!r} is not name=value")
        found[name.strip()] = value.strip()
    return found


async def configure(visit: Visit) -> Response:
    """Set one config, or take it back."""
    name = visit.path("topic")
    await change(visit, (TOPIC, name))
    return visit.to(f"/topics/{name}/configs", said=f"{visit.form.get('config', '')} is changed.")


async def change(visit: Visit, resource: tuple[int, str]) -> None:
    """What the form of configs says. Raises `KafkaError`."""
    key, value = visit.form.get("config", "").strip(), visit.form.get("value", "")
    taken_back = visit.form.get("how") == "take-back"
    add, delete = ({}, [key]) if taken_back else ({key: value}, [])
    await visit.ask(lambda client: alter(client, resource, add=add, delete=delete))


async def confirm(visit: Visit) -> Response:
    """Whoever deletes a topic writes its name."""
    return visit.page("delete_topic.html", name=visit.path("topic"), refusal="")


async def delete(visit: Visit) -> Response:
    name = visit.path("topic")
    if visit.form.get("name", "").strip() != name:
        return visit.page("delete_topic.html", status=400, name=name, refusal="That is not the name of this topic.")
    await visit.ask(lambda client: remove(client, name))
    visit.cluster.forget()
    return visit.to("/topics", said=f"Topic {name} is deleted.")
