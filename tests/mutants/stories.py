"""Which story notices each mutant: `stories.json`, written by `make mutants`, one line a mutant.

A story is a scenario or a seed of the simulation: it sends requests to a whole broker, and knows nothing of the code
that a defect is in. The one known to notice runs first; where it no longer does, all of them run.
"""

import fcntl
import json
import re
from collections.abc import Mapping
from pathlib import Path

from tests.mutants.tables import MUTANTS

PATH = Path(__file__).with_name("stories.json")
SEED = re.compile(r"^seed (\d+)")
SCENARIO = re.compile(r"^scenario .+(?= \| )")


def is_story(catcher: str) -> bool:
    return catcher.startswith(("scenario", "simulation", "seed"))


def known_stories() -> dict[str, str]:
    """Name of a mutant → `scenario TITLE` or `seed N`."""
    if not PATH.exists():
        return {}
    with PATH.open(encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # somebody may be writing it
        text = file.read()
    found: dict[str, str] = json.loads(text) if text else {}
    return found


def who_said(said: str) -> str:
    """The one story among many that noticed something, by what was said."""
    found = SEED.match(said) or SCENARIO.match(said)
    return "" if found is None else found[0]


def remember(news: Mapping[str, str]) -> None:
    """Merge what was found; "" forgets. Several may do so at once."""
    with PATH.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        known: dict[str, str] = json.loads(text) if text else {}
        known.update(news)
        ordered = {name: known[name] for name in MUTANTS if known.get(name)}
        file.truncate(0)
        file.write(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
