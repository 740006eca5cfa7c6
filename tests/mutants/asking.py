"""One mutant against the tests that may notice it, each in a process of its own."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from select import select

from tests.mutants.catchers import NOTICED, SECONDS, STALE, UNNOTICED, notice
from tests.mutants.mutant import SEEDS, Mutant
from tests.mutants.stories import SEED, is_story, known_stories, who_said

WIDER = ("unit/transactions", "unit/partition", "unit/groups", "unit/storage", "unit/broker", "unit/cluster")
STORIES = ("scenarios", f"simulation {SEEDS}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant. `story` is the one that noticed it, `test` the unit test; "" where there was none."""

    mutant: Mutant
    story: str
    story_said: str
    test: str
    test_said: str
    seconds: float
    trouble: str = ""
    """It does not apply any more, or what should notice it is broken."""

    @property
    def noticed(self) -> bool:
        """By a story, or by a test where no story can."""
        return bool(self.story or (self.mutant.unseen and self.test))


def examine(mutant: Mutant, *, narrow: bool = False, tests: bool = True) -> Verdict:
    """The story that is known to notice it, then all others; and the unit tests, those expected first. `narrow`: nobody
    but those expected; without `tests`, stories alone. No story is run where none can notice it."""
    began = time.monotonic()
    known = known_stories().get(mutant.name)
    expected = [one for one in mutant.caught_by if is_story(one)]
    stories = [*([known] if known else []), *expected]
    if not narrow:
        stories += STORIES
    story, story_said, trouble = _first(mutant, [] if mutant.unseen else stories)
    test = test_said = ""
    if tests and not trouble:
        units = [one for one in mutant.caught_by if not is_story(one)]
        test, test_said, trouble = _first(mutant, [*units, *WIDER] if units and not narrow else units)
    return Verdict(mutant, story, story_said, test, test_said, time.monotonic() - began, trouble)


def _first(mutant: Mutant, catchers: Sequence[str]) -> tuple[str, str, str]:
    """(what noticed it, its output, what was wrong with those that did not)"""
    broken = ""
    for catcher in catchers:
        status, said = ask([catcher], mutant)
        if status == STALE:
            return "", "", f"DOES NOT APPLY ANY MORE: {said}"
        if status == NOTICED and not _is_about_the_code_as_it_is(said):
            return who_said(said) or catcher, said, ""
        if status not in (NOTICED, UNNOTICED):
            broken = said or f"{catcher} ended with {status}"
    return "", "", broken


def ask(catchers: Sequence[str], mutant: Mutant | None, seconds: float = SECONDS) -> tuple[int, str]:
    """Catchers in a process of their own, with or without a mutant: (exit status, the last line that was printed). The
    first that notices something is the last that is run; no end within `seconds` is something.

    The process is a fork of one in which nothing but imports has happened.
    """
    answer, to_tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(to_tell, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)  # pytest may have put another in its place
        notice(catchers, mutant)
    os.close(to_tell)
    said = b""
    deadline = time.monotonic() + seconds
    while select([answer], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(answer, 1 << 16)
        if not part:
            break
        said += part
    else:
        os.killpg(child, signal.SIGKILL)
        said = b"no end within %d s" % seconds
    os.close(answer)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = said.decode(errors="replace").strip().splitlines()
    return NOTICED if status == -signal.SIGKILL else status, lines[-1] if lines else ""


def _is_about_the_code_as_it_is(said: str) -> bool:
    """A seed that fails without the mutant proves nothing about it."""
    seed = SEED.match(said)
    return seed is not None and ask([f"seed {seed[1]}"], None)[0] != UNNOTICED
