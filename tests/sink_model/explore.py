"""Every state that can be reached, breadth first, until one breaks a property.

A move is a sentence and the state after it. Sentences are formatted only where somebody reads them.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Sentence = tuple[object, ...]
"""A format string and what goes into it."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A property that does not hold, and what was seen."""

    name: str
    seen: str


@dataclass(slots=True)
class Outcome:
    """What a search has found."""

    states: int = 0
    moves: int = 0
    depth: int = 0
    broken: Broken | None = None
    story: list[str] = field(default_factory=list)
    """The shortest way to the broken property, in words."""
    happened: set[str] = field(default_factory=set)
    """The format strings of all moves that were made: what a search never did it has not proved."""


class Search(Generic[S]):
    """One search. `check` names what is broken in a state, or returns None."""

    def __init__(self, moves: Callable[[S], Iterator[tuple[Sentence, S]]], check: Callable[[S], Broken | None]) -> None:
        self._moves = moves
        self._check = check
        self._came_from: dict[S, tuple[S, Sentence] | None] = {}

    def run(self, start: S) -> Outcome:
        outcome = Outcome()
        came_from, moves = self._came_from, self._moves
        came_from[start] = None
        waiting: deque[tuple[S, int]] = deque([(start, 0)])
        while waiting:
            state, depth = waiting.popleft()
            for sentence, after in moves(state):
                outcome.moves += 1
                outcome.happened.add(str(sentence[0]))
                known = len(came_from)
                came_from.setdefault(after, (state, sentence))
                if len(came_from) == known:
                    continue
                waiting.append((after, depth + 1))
                outcome.depth = depth + 1
                outcome.broken = self._check(after)
                if outcome.broken is not None:
                    outcome.story = self._story(after)
                    outcome.states = len(came_from)
                    return outcome
        outcome.states = len(came_from)
        return outcome

    def _story(self, end: S) -> list[str]:
        story: list[str] = []
        step = self._came_from[end]
        while step is not None:
            state, (pattern, *values) = step
            story.append(str(pattern).format(*values))
            step = self._came_from[state]
        return story[::-1]
