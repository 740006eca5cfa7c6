"""The text of a scenario, read and written.

    === A title
    A sentence or two, with the invariants and defects it is about.
    with transaction.version 2
                                        an empty line ends the head
    alice InitProducerId tx             a step
        => NONE producer_id=P1 ...      what is answered, indented
        Kafka => ...                    what Kafka answers instead, where we differ on purpose
        see docs/decisions/0004-...     which must say so

Nothing here knows what a step does.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
TITLE = "=== "
ANSWER = "=>"
KAFKA = "Kafka =>"
DECISION = re.compile(r"^see (docs/decisions/\d{4}[\w-]*\.md)$")


class NotUnderstood(Exception):
    """A scenario says something that the language does not know; carries file and line."""


@dataclass(slots=True)
class Step:
    """One line of a story and what stands below it."""

    text: str
    line: int
    answer: list[str] = field(default_factory=list)
    kafka: list[str] = field(default_factory=list)
    decision: str = ""
    comments: list[str] = field(default_factory=list)
    """Lines above the step: empty ones and remarks."""

    @property
    def words(self) -> list[str]:
        return split(self.text)


@dataclass(slots=True)
class Scenario:
    """A story with a title."""

    path: Path
    title: str
    head: list[str]
    line: int
    steps: list[Step] = field(default_factory=list)
    trailer: list[str] = field(default_factory=list)
    versions: tuple[int, ...] = (0, 2)
    """The cluster's transaction.version; the story runs once with each."""
    clients: int = 2
    """The transaction.version that clients speak unless a step names another version of a request."""
    settings: dict[str, str] = field(default_factory=dict)
    segment_bytes: int = 0
    """How large segments are, where the story wants them small."""
    not_asked: str = ""
    """Why the story is not run on Kafka, where it could be."""

    @property
    def name(self) -> str:
        return f"{self.path.stem}: {self.title}"

    @property
    def is_of_another_broker(self) -> bool:
        """Whether it wants a broker with settings of its own."""
        return bool(self.settings or self.segment_bytes)

    def uses(self, *first_words: str) -> bool:
        return any(step.text.startswith(first_words) for step in self.steps)


def scenario_files() -> list[Path]:
    return sorted(FOLDER.glob("*.txt"))


def all_scenarios() -> list[Scenario]:
    return [scenario for path in scenario_files() for scenario in read(path)]


def split(text: str) -> list[str]:
    """Words; what stands between quotes or brackets is one word."""
    words, depth, quoted, word = [], 0, False, ""
    for char in text:
        if char == '"':
            quoted = not quoted
        elif not quoted and char in "[{":
            depth += 1
        elif not quoted and char in "]}":
            depth -= 1
        if char == " " and not quoted and depth == 0:
            if word:
                words.append(word)
            word = ""
        else:
            word += char
    return [*words, word] if word else words


def read(path: Path) -> list[Scenario]:
    """The scenarios of a file, in order."""
    scenarios: list[Scenario] = []
    comments: list[str] = []
    in_head = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{path.name}:{number}"
        if line.startswith(TITLE):
            scenarios.append(Scenario(path, line.removeprefix(TITLE).strip(), [], number))
            in_head, comments = True, []
        elif not scenarios:
            if line and not line.startswith("#"):
                raise NotUnderstood(f"{where}: before the first title")
        elif in_head and line:
            _head(scenarios[-1], line, where)
        elif in_head:
            in_head = False
        elif not line or line.startswith("#"):
            comments.append(line)
        elif line.startswith("    "):
            if not scenarios[-1].steps:
                raise NotUnderstood(f"{where}: an answer without a step")
            _below(scenarios[-1].steps[-1], line[4:], where)
        else:
            scenarios[-1].steps.append(Step(line.strip(), number, comments=comments))
            comments = []
    names = [scenario.title for scenario in scenarios]
    if len(set(names)) != len(names):
        raise NotUnderstood(f"{path.name}: two scenarios of one title")
    return scenarios


def _head(scenario: Scenario, line: str, where: str) -> None:
    scenario.head.append(line)
    if found := re.fullmatch(r"with transaction\.version ([\d and]+)", line):
        scenario.versions = tuple(int(number) for number in re.findall(r"\d", found[1]))
    elif found := re.fullmatch(r"clients of transaction\.version (\d)", line):
        scenario.clients = int(found[1])
    elif found := re.fullmatch(r"broker setting ([\w.]+)=(\S*)", line):
        scenario.settings[found[1]] = found[2]
    elif found := re.fullmatch(r"segments of (\d+) bytes", line):
        scenario.segment_bytes = int(found[1])
    elif found := re.fullmatch(r"Kafka is not asked: (.+)", line):
        scenario.not_asked = found[1]
    elif re.match(r"(with|clients of|broker setting|Kafka is)\b.*(=|:|\d$)", line):
        raise NotUnderstood(f"{where}: {line!r}")


def _below(step: Step, line: str, where: str) -> None:
    if found := DECISION.match(line):
        step.decision = found[1]
    elif line.startswith(KAFKA):
        step.kafka.append(line.removeprefix("Kafka "))
    elif step.kafka and not step.decision:
        step.kafka.append(line)
    elif step.decision:
        raise NotUnderstood(f"{where}: nothing may stand below a decision")
    else:
        if not step.answer and not line.startswith(ANSWER):
            raise NotUnderstood(f"{where}: an answer begins with =>")
        step.answer.append(line)


def write(path: Path, scenarios: Sequence[Scenario], answers: Mapping[str, Sequence[list[str]]]) -> str:
    """The text of a file with new answers; all else stays."""
    first = path.read_text(encoding="utf-8").splitlines()
    lines = first[: scenarios[0].line - 1] if scenarios else first
    for position, scenario in enumerate(scenarios):
        lines += [TITLE + scenario.title, *scenario.head, ""]
        found = answers.get(scenario.title)
        for index, step in enumerate(scenario.steps):
            lines += step.comments
            lines.append(step.text)
            answer = found[index] if found is not None and index < len(found) else step.answer
            lines += ["    " + line for line in answer]
            lines += [f"    {'Kafka ' if line.startswith(ANSWER) else ''}{line}" for line in step.kafka]
            if step.decision:
                lines.append(f"    see {step.decision}")
        if position + 1 < len(scenarios):
            lines.append("")
    return "\n".join(lines) + "\n"
