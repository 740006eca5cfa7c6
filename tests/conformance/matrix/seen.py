"""What was seen in the last whole run of each client, with us and with Apache Kafka: `seen.json`."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.matrix.judge import Cell

KEPT = Path(__file__).with_name("seen.json")
OURS, KAFKAS = "tallystick", "apache-kafka"


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one client with one broker."""

    version: str
    cells: dict[str, Cell]


def seen(broker: str) -> dict[str, Seen]:
    """By client."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return {
        client: Seen(one["version"], {story: Cell(*cell) for story, cell in one["cells"].items()})
        for client, one in kept.get(broker, {}).items()
    }


def keep(client: str, version: str, cells: dict[str, Cell], *, kafka: bool) -> None:
    """What there is of stories that were not told now stays."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    of_broker = kept.setdefault(KAFKAS if kafka else OURS, {})
    before = of_broker.get(client, {"cells": {}})["cells"]
    written = {story: [cell.mark, *([cell.why] if cell.why else [])] for story, cell in cells.items()}
    of_broker[client] = {"version": version, "cells": before | written}
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
