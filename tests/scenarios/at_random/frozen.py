"""What Apache Kafka 4.3.1 answered to a fixed set of random stories: `kafka/<kind>-tv<transaction.version>.json.xz`.

The steps are there, too, so that a story stays the same when its author changes.
"""

import json
import lzma
from collections.abc import Sequence
from pathlib import Path

from tests.scenarios.at_random.comparing import Compared

FOLDER = Path(__file__).parent / "kafka"
PRESET = 9 | lzma.PRESET_EXTREME


def path_of(kind: str, cluster: int) -> Path:
    return FOLDER / f"{kind}-tv{cluster}.json.xz"


def save(kind: str, cluster: int, stories: Sequence[Compared]) -> None:
    told = [
        [story.seed, [[step, *answer] for step, answer in zip(story.steps, story.answers, strict=True)]]
        for story in stories
    ]
    FOLDER.mkdir(exist_ok=True)
    path_of(kind, cluster).write_bytes(lzma.compress(json.dumps(told).encode(), preset=PRESET))


def load(kind: str, cluster: int) -> dict[int, list[tuple[str, list[str]]]]:
    """Seed → (step, Kafka's answer) of each step."""
    stored = json.loads(lzma.decompress(path_of(kind, cluster).read_bytes()))
    return {seed: [(step, answer) for step, *answer in steps] for seed, steps in stored}
