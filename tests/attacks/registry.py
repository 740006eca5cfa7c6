"""The registry of attacks: what a case is, and how a function becomes one.

A case is one short function that does the attack's work over connections of its own. Its sizes are keywords with two
values, for the short form in `make test` and for the long one in `make attack`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

Attack = Callable[..., None]
EVERYBODY = ("probe", "writer", "member", "transactor")


@dataclass(frozen=True)
class Case:
    """One attack."""

    name: str
    title: str
    """What is done, in a line: the docstring of the function."""
    attack: Attack
    short: Mapping[str, int]
    long: Mapping[str, int]
    settings: Mapping[str, str] = field(default_factory=dict)
    honest: tuple[str, ...] = EVERYBODY
    prepare: Attack | None = None
    """Work before the measurement: topics, records, transactions. Called with the sizes, too."""
    peak_mb: int | None = None
    """How far memory may grow while the attack goes on, if that is bounded; in the short form."""
    kept_mb: int = 64
    """How much more memory the process may have when everybody has hung up."""
    descriptor_limit: int = 0
    full_pipe: bool = False
    """Standard error is a pipe that nobody reads."""
    expected_tracebacks: int = 0
    pending: str = ""
    """Why the short form fails today; empty once it holds."""
    on_kafka: bool = True
    """Whether the case means anything to Apache Kafka."""


CASES: dict[str, Case] = {}


def case(
    *, short: Mapping[str, int], long: Mapping[str, int], name: str = "", **options: object
) -> Callable[[Attack], Attack]:
    """Enter the function under its name, in words."""

    def enter(attack: Attack) -> Attack:
        called = name or attack.__name__.replace("_", "-")
        assert called not in CASES
        assert attack.__doc__, called
        title = " ".join(attack.__doc__.split()).removesuffix(".")
        CASES[called] = Case(called, title, attack, short, long, **options)  # type: ignore[arg-type]
        return attack

    return enter


def load_cases() -> dict[str, Case]:
    """All cases; their modules enter them when they are imported."""
    from tests.attacks.cases import (  # noqa: F401
        connections,
        coordinators,
        fuzzing,
        operators,
        quotas,
        records,
        requests,
        storage,
        strangers,
    )

    return CASES


def size_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in sizes.items())
