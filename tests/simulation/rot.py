"""Damage to files that can be made anew, while the broker is down: all is served as it was."""

from collections.abc import Callable
from random import Random

from tests.harness.disk import SimulatedDisk
from tests.simulation.shape import FaultPlan

ENDINGS = (".txnindex", "aborted-checkpoint", ".index", ".timeindex", "leader-epoch-checkpoint")
"""What is damaged. Logs are not: then something is refused, which no checker here expects."""


def _flip(content: bytearray, place: float) -> None:
    if content:
        content[int(len(content) * place)] ^= 0x10


WAYS: dict[str, Callable[[bytearray, float], object]] = {
    "emptied": lambda content, _: content.clear(),
    "cut": lambda content, place: content.__delitem__(slice(int(len(content) * place), None)),
    "flipped": _flip,
    "doubled": lambda content, _: content.extend(bytes(content)),
}


def draw_rot(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """Damage that is met at a start of the broker, in some runs."""
    if random.random() >= 0.3:
        return ()
    at_s, way = random.random() * duration_s, random.choice(("lost", "lost", *WAYS))
    return (FaultPlan("rot", at_s, way, random.randrange(1 << 16), random.random()),)


def rot(disk: SimulatedDisk, fault: FaultPlan) -> str | None:
    """Damage one file: which, or None where there is none."""
    ending = ENDINGS[fault.count % len(ENDINGS)]
    paths = [f"{folder}/{name}" for folder in disk.list("") for name in disk.list(folder) if name.endswith(ending)]
    if not paths:
        return None
    path = paths[fault.count // len(ENDINGS) % len(paths)]
    if fault.operation == "lost":
        disk.lose(path)
    else:
        disk.spoil(path, lambda content: WAYS[fault.operation](content, fault.amount))
    return path
