"""One random story, told to us and to Apache Kafka: the answers must be equal, field by field, up to the first step in
which a decision says that they are not.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.at_random import administration, consumers, members, transactions
from tests.scenarios.language import NotUnderstood, Scenario, Step
from tests.scenarios.places import virtual
from tests.scenarios.places.sockets import Oracle

Answers = Sequence[list[str]]
AUTHORS: dict[str, Callable[[int, int], list[str]]] = {
    "transactions": lambda seed, cluster: transactions.Author(seed, cluster).story(),
    "consumers": lambda seed, cluster: consumers.Author(seed, cluster).story(),
    "members": lambda seed, cluster: members.Author(seed).story(),
    "administration": lambda seed, cluster: administration.Author(seed).story(),
}
"""Kind → the story of a seed in a cluster of this transaction.version."""
MIN_ISR = re.compile(r"(name=min.insync.replicas value=1 read_only=false config_source)=[35]")
OF_MIN_ISR = re.compile(r" +name=min.insync.replicas value=1 source=[345]").fullmatch
ATTEMPTS = 3
ABORTED = re.compile(r"aborted=\[(.*?)\]")


@dataclass(frozen=True, slots=True)
class Compared:
    """`steps` and what Kafka answered to them: all of a story, or what comes before the first step that is answered
    otherwise. `otherwise`: what led to that step, where no decision declares it."""

    seed: int
    steps: list[str]
    answers: list[list[str]]
    otherwise: list[str]


def scenario(name: str, cluster: int, steps: Sequence[str]) -> Scenario:
    """As if it stood in a file."""
    numbered = [Step(text, line) for line, text in enumerate(steps)]
    return Scenario(Path("at-random.txt"), name, [], 1, steps=numbered, versions=(cluster,), clients=cluster)


def patiently(steps: Sequence[str], answers: Answers) -> list[str]:
    """The steps for Kafka, which makes a client retry where we hold its request (decision 0002)."""
    return [
        f"{step} until {answer[0].split()[1]}" if " InitProducerId " in step else step
        for step, answer in zip(steps, answers, strict=True)
    ]


def is_declared(steps: Sequence[str], ours: Answers, theirs: list[str]) -> bool:
    """Whether the last of these steps differs as a decision says it does."""
    mine, there = ours[-1][0], theirs[0]
    if " EndTxn v5 " in steps[-1]:
        return "PRODUCER_FENCED" in mine and "NONE" in there  # 0008
    if "INVALID_TXN_STATE" in mine and "log_append_time_ms" in there:
        return True  # A repeat of what a transaction wrote that has ended: 0051
    repeated = any("log_append_time_ms" in line for answer in ours for line in answer)
    return "OUT_OF_ORDER" in there and "NONE" in mine and repeated  # 0011


def compare(kafka: Oracle, kind: str, seed: int, cluster: int) -> Compared | None:
    """None for a story in which an id hangs in Kafka: a marker was refused with INVALID_PRODUCER_EPOCH
    (KAFKA-19999)."""
    steps = AUTHORS[kind](seed, cluster)
    name = f"{kind} {seed}"
    ours = virtual.play(scenario(name, cluster, steps), cluster)
    try:
        theirs = _told(kafka, scenario(name, cluster, patiently(steps, ours)), ours)
    except NotUnderstood as error:
        return None if "does not come to its end" in str(error) else Compared(seed, [], [], [str(error)])
    for last, (mine, there) in enumerate(zip(ours, theirs, strict=True)):
        if not is_same(mine, there):
            otherwise: list[str] = []
            if not is_declared(steps[: last + 1], ours[: last + 1], there):
                told = [f"{step} | {' / '.join(answer)}" for step, answer in zip(steps[:last], ours, strict=False)]
                otherwise = [*told, steps[last], *mine, "Kafka " + there[0], *there[1:]]
            return Compared(seed, steps[:last], theirs[:last], otherwise)
    return Compared(seed, steps, theirs, [])


def _told(kafka: Oracle, story: Scenario, ours: Answers) -> Answers:
    """What a Kafka broker knows of topics follows its controller some milliseconds later: it is asked again."""
    for _ in range(ATTEMPTS):
        theirs = kafka.play(story)
        if all(map(is_same, ours, theirs)):
            break
    return theirs


def is_same(ours: list[str], theirs: list[str]) -> bool:
    """Tombstones of a group have no order. Kafka names the aborted transactions up to the next entry of its index, we
    those up to the last record that was read (KIP-98): a reader needs no others. Decision 0007: where
    `min.insync.replicas` comes from."""
    ours, theirs = ([MIN_ISR.sub(r"\1", line) for line in lines if not OF_MIN_ISR(line)] for lines in (ours, theirs))
    return len(ours) == len(theirs) and all(map(_is_same_line, sorted(ours), sorted(theirs)))


def _is_same_line(ours: str, theirs: str) -> bool:
    mine, there = ABORTED.search(ours), ABORTED.search(theirs)
    if ours == theirs or mine is None or there is None:
        return ours == theirs
    rest_is_same = ABORTED.sub("", ours) == ABORTED.sub("", theirs)
    return rest_is_same and there[1].split()[: len(mine[1].split())] == mine[1].split()
