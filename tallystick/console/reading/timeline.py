"""The steps of a transactional id as a picture: who asked what, which state it was in, where it wrote. No I/O.

Time runs to the right, and not evenly: a step is there to be seen however short it was, and an hour in which nothing
happened takes no more room than it needs to be noticed. Each step is a line of text, too.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import log10
from typing import Any

from tallystick.durations import in_words
from tallystick.written import counted

DRAWN = 60
"""The last of so many events are drawn, and `TOLD` of them told."""
TOLD = 300
_LANES = 14
_LEFT, _WIDTH, _LANE, _TOP = 190, 1080, 28, 34
_SHORTEST, _PER_TENFOLD = 14.0, 26.0
_TICK_ROOM = 92.0
_LETTER = 7.1
_BEHIND = 1 << 30
"""In the order of a millisecond: what happened in the same one stands in a row, in the order in which it was noted."""
_FATE = {
    "Empty": "plain",
    "Ongoing": "open",
    "PrepareCommit": "commit",
    "CompleteCommit": "commit",
    "PrepareAbort": "abort",
    "CompleteAbort": "abort",
    "PrepareEpochFence": "abort",
}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A bar where `width` is not 0, else a dot (or, of markers, a diamond)."""

    kind: str
    x: float
    y: int
    width: float
    title: str
    label: str = ""
    """Where there is room for it."""


@dataclass(frozen=True, slots=True)
class Text:
    """A lane's name, or a time under the axis."""

    x: float
    y: int
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One line."""

    at_ms: int
    after_ms: int
    """Since the line before."""
    who: str
    what: str
    kind: str


@dataclass(frozen=True, slots=True)
class Picture:
    """To be drawn by a template; coordinates as in its view box."""

    width: int
    height: int
    left: int
    lanes: list[Text]
    shapes: list[Shape]
    ticks: list[Text]
    steps: list[Step]
    dropped: int
    """Events that are not told."""
    clients: list[str] = field(default_factory=list)


def picture(said: Json) -> Picture | None:
    """Of what a broker's journal says (`/v1/transactions/…/timeline`); None where it knows nothing. Raises `KeyError`,
    `TypeError` or `ValueError` for what is none of it."""
    events = [one for one in said["events"] if one["is"] in _SAID]
    if not said["known"] or not events:
        return None
    clients = [_client(one) for one in said["clients"]]
    told = events[-TOLD:]
    drawn = _Drawing(told[-DRAWN:], clients, max(int(said["now"]), max(_until(one) for one in told)))
    dropped = int(said["dropped"]) + len(events) - len(told)
    return drawn.whole(_steps(told, clients), dropped, clients)


def _client(one: Json) -> str:
    software = " ".join(filter(None, (str(one.get("software") or ""), str(one.get("version") or ""))))
    return f"{one.get('clientId') or 'no client id'} ({one['host']}{f', {software}' if software else ''})"


def _until(event: Json) -> int:
    return int(event.get("until") or event.get("answeredAt") or event["at"])


# In words.


def _steps(events: list[Json], clients: list[str]) -> list[Step]:
    steps, before = [], int(events[0]["at"])
    for event in events:
        who = clients[event["client"]] if event.get("client") is not None else "coordinator"
        steps.append(Step(int(event["at"]), int(event["at"]) - before, who, _SAID[event["is"]](event), _kind(event)))
        before = int(event["at"])
    return steps


def _kind(event: Json) -> str:
    if event.get("error") not in (None, "", "NONE"):
        return "error"
    match event["is"]:
        case "state":
            return _FATE.get(event["state"], "plain")
        case "markers":
            return "commit" if event["commit"] else "abort"
        case _:
            return "step"


def _refusal(event: Json) -> str:
    return "" if event.get("error") in (None, "", "NONE") else f": {event['error']}"


def _said_request(event: Json) -> str:
    answered = event.get("answeredAt")
    took = (
        f", answered after {in_words(int(answered) - int(event['at']))}" if answered is not None else ", not answered"
    )
    return f"{event['api']} {event['version']}{_refusal(event)}{took}"


def _said_state(event: Json) -> str:
    open_over = f", {counted(event['partitions'], 'partition')}" if event["partitions"] else ""
    return f"{event['state']}: producer id {event['producerId']}, epoch {event['epoch']}{open_over}"


def _said_records(event: Json) -> str:
    where = "several partitions" if event["topic"] is None else f"{event['topic']}-{event['partition']}"
    return (
        f"{counted(event['records'], 'record')} into {where}, offsets {event['baseOffset']} to {event['lastOffset']}"
        + _refusal(event)
    )


def _said_markers(event: Json) -> str:
    what = "commit" if event["commit"] else "abort"
    by = ", by an operator" if event.get("byOperator") else ""
    places = ", ".join(f"{topic}-{partition}" for topic, partition, _ in event["places"][:8])
    more = f" and {event['count'] - 8} more" if event["count"] > 8 else ""
    return f"{what} markers in {places}{more}{by}{_refusal(event)}"


_SAID: dict[str, Callable[[Json], str]] = {
    "request": _said_request,
    "state": _said_state,
    "records": _said_records,
    "markers": _said_markers,
}


class _Drawing:
    """Places of events in lanes: the state, each client, each partition."""

    def __init__(self, events: list[Json], clients: list[str], now: int) -> None:
        self._events = events
        self._clients = clients
        last = max(_until(one) for one in events)
        moments = [(int(one["at"]), number) for number, one in enumerate(events)]
        moments += [(_until(one), _BEHIND) for one in events if _until(one) > int(one["at"])]
        self._moments = sorted({*moments, (min(now, last + 1), _BEHIND)})
        self._at = _spread([at_ms for at_ms, _ in self._moments])
        self._lanes: dict[str, int] = {"state": 0}

    def whole(self, steps: list[Step], dropped: int, clients: list[str]) -> Picture:
        shapes = self._states()
        for number, event in enumerate(self._events):
            shapes += [shape for shape in self._shapes(event, number) if shape is not None]
        bottom = _TOP + _LANE * len(self._lanes)
        lanes = [Text(8, self._middle(number), _cut(name)) for name, number in self._lanes.items()]
        return Picture(_WIDTH, bottom + 26, _LEFT, lanes, shapes, self._ticks(bottom), steps, dropped, clients)

    def _x(self, at_ms: int, number: int = _BEHIND) -> float:
        """Of one event, or behind all of its millisecond."""
        return self._at[max(0, bisect_right(self._moments, (at_ms, number)) - 1)]

    @staticmethod
    def _middle(lane: int) -> int:
        return _TOP + _LANE * lane + _LANE // 2

    def _lane(self, name: str) -> int | None:
        if name not in self._lanes and len(self._lanes) >= _LANES:
            return None
        return self._middle(self._lanes.setdefault(name, len(self._lanes)))

    def _shape(self, name: str, event: Json, number: int, kind: str | None = None) -> Shape | None:
        y = self._lane(name)
        if y is None:
            return None
        x, end = self._x(int(event["at"]), number), self._x(_until(event))
        width = max(0.0, end - x) if _until(event) > int(event["at"]) else 0.0
        label = _fitting(str(event.get("api") or ""), width)
        return Shape(kind or _kind(event), x, y, width, _SAID[event["is"]](event), label)

    def _shapes(self, event: Json, number: int) -> list[Shape | None]:
        match event["is"]:
            case "request":
                return [self._shape(self._clients[event["client"]].partition(", ")[0].rstrip(")") + ")", event, number)]
            case "records":
                where = "several partitions" if event["topic"] is None else f"{event['topic']}-{event['partition']}"
                kind = "error" if _kind(event) == "error" else "records"
                return [self._shape(where, event, number, kind)]
            case "markers":
                return [self._shape(f"{topic}-{partition}", event, number) for topic, partition, _ in event["places"]]
            case _:
                return []

    def _states(self) -> list[Shape]:
        found = [(number, one) for number, one in enumerate(self._events) if one["is"] == "state"]
        starts = [self._x(int(one["at"]), number) for number, one in found]
        ends = [*starts[1:], self._at[-1]][: len(starts)]
        return [
            Shape(
                "deciding " + _kind(one) if str(one["state"]).startswith("Prepare") else _kind(one),
                x,
                self._middle(0),
                max(3.0, end - x - 1.5),
                _said_state(one),
                _fitting(one["state"], end - x),
            )
            for (_, one), x, end in zip(found, starts, ends, strict=True)
        ]

    def _ticks(self, bottom: int) -> list[Text]:
        """How long after the first event that is drawn, where there is room; no two of them read alike."""
        ticks: list[Text] = []
        first, told, free_from = self._moments[0][0], "", float("-inf")
        for (at_ms, _), x in zip(self._moments, self._at, strict=True):
            text = _after(at_ms - first)
            if x >= free_from and text != told:
                ticks.append(Text(x, bottom + 16, text))
                told, free_from = text, x + _TICK_ROOM
        return ticks


def _after(milliseconds: int) -> str:
    """Of the first seconds a hundredth is of interest, too."""
    if 1000 <= milliseconds < 10_000:
        return f"+{milliseconds // 1000}.{milliseconds % 1000 // 10:02} s"
    return f"+{in_words(milliseconds)}" if milliseconds else "0"


def _spread(times: list[int]) -> list[float]:
    """An x for each time: a tenfold gap is as much wider each time."""
    gaps = [_SHORTEST + _PER_TENFOLD * log10(1 + late - soon) for soon, late in pairwise(times)]
    room = _WIDTH - _LEFT - 60
    scale = min(6.0, room / sum(gaps)) if gaps else 1.0
    places = [float(_LEFT + 14)]
    for gap in gaps:
        places.append(places[-1] + gap * scale)
    return [round(one, 1) for one in places]


def _fitting(label: str, width: float) -> str:
    return label if len(label) * _LETTER + 8 <= width else ""


def _cut(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
