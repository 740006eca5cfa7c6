"""High watermark, last stable offset and log start never go back for anybody (I29).

After a crash the log start may: as with Kafka, where retention came to is written down with the next checkpoint. What a
DeleteRecords was answered stays. A node that follows another in the store may be behind that, or in front of it, which
is told later of its own commits; but not behind what it has said itself.
"""

from collections.abc import Iterator

from tests.simulation.history import History, Look, Place

START = "log start"


def going_back(history: History) -> Iterator[str]:
    """A request after another response gets no lower result."""
    looks: dict[Place, list[tuple[int, int, Look, str]]] = {}
    for reading in history.readings:
        for look in reading.looks:
            known = looks.setdefault(look.place, [])
            known.append((look.time, 0, look, reading.reader))
            known.append((look.sent_at, 1, look, reading.reader))
    for place, events in looks.items():
        if place[0] in history.forgotten:
            continue
        events.sort(key=lambda event: (event[0], event[1]))
        best: dict[int, dict[str, int]] = {}
        floors: dict[int, dict[str, int]] = {}
        first_told: dict[tuple[str, int], int] = {}
        for _, is_request, look, reader in events:
            found = _told(look)
            if is_request:
                floors[id(look)] = dict(best.get(look.near, {}))
                continue
            for name, floor in floors.get(id(look), {}).items():
                # What is deleted is stable: there, the last stable offset is the log start, and goes back with it.
                begun = first_told.get((START, floor)) if name != "high watermark" else None
                crashed = begun is not None and history.crashes and history.crashes[-1] >= begun
                if found[name] < floor and not crashed:
                    yield f"{reader} was told {name} {found[name]} of {place} after {floor} was known"
            if look.last_stable_offset > look.high_watermark:
                yield f"{reader}: {place} is stable up to {look.last_stable_offset}, beyond {look.high_watermark}"
            before = best.get(look.near, found)
            best[look.near] = {name: max(before[name], value) for name, value in found.items()}
            for name, value in best[look.near].items():
                first_told.setdefault((name, value), look.time)


def deleted_for_good(history: History) -> Iterator[str]:
    """Records whose deletion was answered are not there again, whoever has died since."""
    for place, low in history.trims.items():
        final = history.final.get(place)
        if final is not None and place[0] not in history.forgotten and final.log_start_offset < low:
            yield f"{place} begins at {final.log_start_offset}, and was answered to begin at {low}"


def _told(look: Look) -> dict[str, int]:
    return {
        "high watermark": look.high_watermark,
        "last stable offset": look.last_stable_offset,
        START: look.log_start_offset,
    }
