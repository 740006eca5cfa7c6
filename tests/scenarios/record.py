"""What Apache Kafka 4.3.1 answered, beside the scenarios: `kafka/<file>-tv<transaction.version>.json`.

Per story, its steps and their answers, normalised as ours are. `make oracle` writes it; a run without Java compares
with it. A story whose steps have changed since it was recorded is out of date, and says so.
"""

import functools
import json
from pathlib import Path

from tests.scenarios.language import FOLDER, Scenario, Step

KAFKA_VERSION = "4.3.1"
Answers = list[list[str]]
FAULTS = ("crash at", "power fails at", "fault ", "faults end")
DISK = ("syncs ", "one sync ", "damage ", "lose ")
BEYOND = ("crash", "power cut", "stop", "restart", "advance time", "clock goes back", *FAULTS, *DISK)
"""What cannot be run on Kafka, or what it is no oracle for."""


def comparable(scenario: Scenario) -> bool:
    """Whether the story can run on Kafka: nothing in the story needs our own powers."""
    return not scenario.not_asked and not scenario.is_of_another_broker and not scenario.uses(*BEYOND)


def path_of(scenario_file: Path, transaction_version: int) -> Path:
    return FOLDER / "kafka" / f"{scenario_file.stem}-tv{transaction_version}.json"


@functools.cache
def load(scenario_file: Path, transaction_version: int) -> dict[str, list[tuple[str, list[str]]]]:
    """Title → (step, answer) of each step."""
    path = path_of(scenario_file, transaction_version)
    if not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))["scenarios"]
    return {title: [(step, lines) for step, *lines in steps] for title, steps in stored.items()}


def save(scenario_file: Path, transaction_version: int, answers: dict[str, tuple[Scenario, Answers]]) -> None:
    stories = {
        title: [[step.text, *lines] for step, lines in zip(scenario.steps, found, strict=True)]
        for title, (scenario, found) in answers.items()
    }
    text = json.dumps(
        {"kafka": KAFKA_VERSION, "transaction.version": transaction_version, "scenarios": stories},
        indent=1,
        ensure_ascii=False,
    )
    path = path_of(scenario_file, transaction_version)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    load.cache_clear()


def differences(scenario: Scenario, ours: Answers, kafka: Answers) -> list[tuple[Step, list[str], list[str]]]:
    """Steps that are answered otherwise than the story says: (step, expected of Kafka, answered by Kafka). Kafka is
    expected to answer as we do, unless the step says otherwise."""
    found = []
    for step, mine, theirs in zip(scenario.steps, ours, kafka, strict=True):
        expected = step.kafka or mine
        if expected != theirs:
            found.append((step, expected, theirs))
    return found


def recorded(scenario: Scenario, transaction_version: int) -> Answers | None:
    """Kafka's answers, or None where the record is missing or of other steps."""
    steps = load(scenario.path, transaction_version).get(scenario.title)
    if steps is None or [step for step, _ in steps] != [step.text for step in scenario.steps]:
        return None
    return [lines for _, lines in steps]
