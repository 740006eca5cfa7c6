"""A program gets stories, and says line by line what it saw; one that hangs or dies is started again with the rest."""

import json
import queue
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.matrix.clients import Client
from tests.conformance.matrix.judge import Cell, judge
from tests.conformance.matrix.place import CUTS, Place
from tests.conformance.matrix.stage import set_stage, wrong_in_the_log
from tests.conformance.matrix.story import Story

PATIENCE_S = 150.0
"""For one story: more than a program itself waits for anything. Against a hang."""


def tell(place: Place, client: Client, stories: Sequence[Story], folder: Path) -> dict[str, Cell]:
    """What becomes of each story, by its name. Raises `Missing`."""
    command, _ = client.prepare()

    def told_by(number: int) -> dict[str, Cell]:
        own = folder / str(number)
        own.mkdir(exist_ok=True)
        return _tell_once(place, command, stories[number :: client.at_once], own)

    with ThreadPoolExecutor(client.at_once) as programs:
        parts = list(programs.map(told_by, range(client.at_once)))
    cells = {name: cell for part in parts for name, cell in part.items()}
    failed = [story for story in stories if cells[story.name].mark == "no"]
    return cells | _tell_once(place, command, failed, folder) if client.twice and failed else cells


def _tell_once(place: Place, command: Sequence[str], stories: Sequence[Story], folder: Path) -> dict[str, Cell]:
    named = [story.named(f"{number}-{secrets.token_hex(3)}") for number, story in enumerate(stories)]
    bootstrap = place.broker.open_bootstrap
    set_stage(bootstrap, named)
    cells: dict[str, Cell] = {}
    while len(cells) < len(named):
        rest = named[len(cells) :]
        written = folder / "stories.json"
        if any(story.place == "cut" for story in rest):
            place.cut_from_now_on()
        cuts = place.cuts
        told = [{"name": one.name, "at": place.address(one), "steps": one.steps} for one in rest]
        written.write_text(json.dumps(told))
        for story, line in zip(rest, _lines([*command, str(written)], folder / "errors.txt"), strict=False):
            cell = judge(story, line)
            if cell.mark == "yes" and (wrong := wrong_in_the_log(bootstrap, story)):
                cell = Cell("no", wrong)
            if cell.mark == "yes" and story.place == "cut" and place.cuts < cuts + CUTS:
                cell = Cell("no", f"connections were cut {place.cuts - cuts} times only")
            cells[story.name] = cell
    return cells


def _lines(command: Sequence[str], errors: Path) -> Iterator[dict[str, Any]]:
    """What the program prints. If it ends or hangs, that is what becomes of the story it was at."""
    heard: queue.Queue[str] = queue.Queue()
    with errors.open("w") as beside:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=beside, text=True, cwd=errors.parent)
    assert process.stdout is not None
    listener = threading.Thread(target=_listen, args=(process.stdout, heard.put), daemon=True)
    listener.start()
    try:
        while True:
            line = heard.get(timeout=PATIENCE_S)
            if not line:
                said = " ".join(errors.read_text(errors="replace").split())[-400:]
                yield {"observed": [{"error": f"the program ended with status {process.wait()}: {said}"}]}
                return
            yield json.loads(line)
    except queue.Empty:
        yield {"observed": [{"error": f"nothing came for {PATIENCE_S:.0f} s"}]}
    finally:
        process.kill()
        process.wait()
        listener.join()
        process.stdout.close()


def _listen(source: Any, put: Callable[[str], None]) -> None:
    for line in source:
        if line.startswith("{"):  # Some clients print what they think.
            put(line)
    put("")
