"""The matrix as a part of docs/compatibility.md, from what was seen."""

from tests.conformance.matrix.clients import CLIENTS
from tests.conformance.matrix.judge import Cell
from tests.conformance.matrix.seen import KAFKAS, OURS, Seen, seen
from tests.conformance.matrix.story import known, stories

MARKS = {"yes": "✓", "no": "✗", "absent": "–"}
HEAD = """## What clients see

Stories that unmodified clients tell with this broker (`tests/conformance/matrix/stories.toml`, `make conformance`;
those of Python in `make test`, too). ✓: the client saw what it must see. ✗: it did not, for the reason below. –: it
does not offer this. {asked}

{totals}
"""


def section() -> str:
    """Of the page, with its heading."""
    ours, kafkas = seen(OURS), seen(KAFKAS)
    clients = [name for name in CLIENTS if name in ours]
    marks = [ours[client].cells[story.name].mark for client in clients for story in stories()]
    totals = f"{len(clients)} clients, {len(stories())} stories: " + ", ".join(
        f"{marks.count(mark)} {sign}" for mark, sign in (("yes", "✓"), ("no", "✗"), ("absent", "–"))
    )
    parts = [HEAD.format(totals=f"{totals}.", asked=_asked(clients, ours, kafkas))]
    numbers = {client: number for number, client in enumerate(clients, 1)}
    parts.append(", ".join(f"{number}: {client} {ours[client].version}" for client, number in numbers.items()) + ".\n")
    parts.append("| | " + " | ".join(map(str, numbers.values())) + " |\n|---|" + "---|" * len(clients))
    room = ""
    for story in stories():
        if story.room != room:
            room = story.room
            parts.append(f"| **{room}** |" + " |" * len(clients))
        found = " | ".join(MARKS[ours[client].cells[story.name].mark] for client in clients)
        parts.append(f"| {story.name} | {found} |")
    again = [
        f"What {client.name} fails is told once more: {client.twice}.\n" for client in CLIENTS.values() if client.twice
    ]
    return "\n".join([*parts, "", *again, *_reasons(clients, ours), ""])


def _asked(clients: list[str], ours: dict[str, Seen], kafkas: dict[str, Seen]) -> str:
    """What Apache Kafka says to the same."""
    asked = [client for client in clients if client in kafkas]
    if not asked:
        return "Apache Kafka was not asked."
    other = [
        f"{client}, {story.name} ({MARKS[kafkas[client].cells[story.name].mark]} there"
        + (f": {reason})" if (reason := known(kafka=True).get((client, story.name))) else ")")
        for client in asked
        for story in stories()
        if story.name in kafkas[client].cells
        and kafkas[client].cells[story.name].mark != ours[client].cells[story.name].mark
    ]
    others = [client for client in clients if client not in kafkas]
    said = "With Apache Kafka 4.3.1 each client" + (f" but {', '.join(others)}, which was not asked," if others else "")
    return f"{said} sees the same" + (f", but for {'; '.join(other)}." if other else ".")


def _reasons(clients: list[str], ours: dict[str, Seen]) -> list[str]:
    """Of what is not ✓: for each client, first what is known of ✗, then what it does not offer."""
    lines = []
    for client in clients:
        cells = ours[client].cells
        for story in stories():
            if cells[story.name].mark == "no":
                lines.append(f"- ✗ {client}, {story.name}: {known().get((client, story.name), 'not explained yet')}")
        absent: dict[str, list[str]] = {}
        for story in stories():
            cell: Cell = cells[story.name]
            if cell.mark == "absent":
                absent.setdefault(cell.why, []).append(story.name)
        said = [f"{why} ({', '.join(names)})" for why, names in absent.items()]
        if said:
            lines.append(f"- – {client}: {'; '.join(said)}")
    return lines
