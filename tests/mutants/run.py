"""`make mutants`: plant one mutant at a time, each in processes of its own, and see what notices it.

What is expected to notice it runs first, then everything else that is quick, then more seeds of the simulation. Before
that, what is expected to notice anything must be content with the code as it is; a seed of the simulation that noticed
something is run once more without the mutant. Exit status 1 where a mutant goes unnoticed or does not apply any more, 2
where a test fails without any.
"""

import argparse
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from select import select

from tests.mutants.catchers import NOTICED, SECONDS, STALE, UNNOTICED, notice, warm_up
from tests.mutants.mutant import VARIABLE, Mutant
from tests.mutants.page import write
from tests.mutants.tables import MUTANTS

WIDER = ("unit/transactions", "unit/partition", "unit/groups", "unit/storage", "unit/broker", "unit/cluster")
WIDEST = ("scenarios", "simulation 200")
STORIES = ("scenarios", "simulation 150")
"""What a survey asks: would those who know nothing of the defect notice it?"""
SEED = re.compile(r"^seed (\d+)")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant. `by` is the catcher, "" where there was none; `said` is for people."""

    mutant: Mutant
    by: str
    said: str
    seconds: float
    stale: bool = False

    @property
    def as_expected(self) -> bool:
        return self.by in self.mutant.caught_by


def main(arguments: Sequence[str] | None = None) -> int:
    """See the head of this file."""
    options = _options(arguments)
    chosen = [mutant for mutant in MUTANTS.values() if _is_chosen(mutant, options.names, exact=options.exact)]
    if not chosen:
        print("there is no such mutant")
        return 2
    if not options.unchecked and not sound(chosen):
        return 2
    verdicts = []
    examined = survey if options.stories else partial(examine, narrow=options.narrow)
    for verdict in _examined(chosen, options.jobs, examined):
        verdicts.append(verdict)
        print(_line(verdict), flush=True)
    missed = [verdict for verdict in verdicts if not verdict.by]
    elsewhere = [verdict for verdict in verdicts if verdict.by and not verdict.as_expected]
    if options.stories:
        by = Counter(verdict.by.partition(" ")[0] for verdict in verdicts if verdict.by)
        print(f"of {len(verdicts)}: {', '.join(f'{count} by {kind}' for kind, count in by.items())}")
        return 0
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} noticed, {len(elsewhere)} of them elsewhere than expected")
    if not options.names:
        places = list(MUTANTS)
        write(sorted(verdicts, key=lambda verdict: places.index(verdict.mutant.name)))
    return 1 if missed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants, or parts of their names; all of them by default")
    parser.add_argument("--jobs", type=int, default=max(1, os.cpu_count() or 2))
    parser.add_argument("--exact", action="store_true", help="names are whole names")
    parser.add_argument(
        "--stories", action="store_true", help="a survey: whom do scenarios and 150 seeds notice by themselves?"
    )
    parser.add_argument("--narrow", action="store_true", help="only what is expected to notice each")
    parser.add_argument(
        "--unchecked", action="store_true", help="do not look first whether all is well without mutants"
    )
    return parser.parse_args(arguments)


def _is_chosen(mutant: Mutant, names: Sequence[str], *, exact: bool) -> bool:
    return not names or any(name == mutant.name if exact else name in mutant.name for name in names)


def sound(chosen: Sequence[Mutant]) -> bool:
    """Whether the catchers that are tests are content without a mutant. Simulations are looked at when they notice."""
    tests = sorted({f"tests/{one}" for mutant in chosen for one in mutant.caught_by if one.startswith("unit/")})
    if not tests:
        return True
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=line", "--hypothesis-seed=0", *tests],
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if key != VARIABLE},
        check=False,
    )
    if done.returncode:
        print(f"tests fail without any mutant:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return done.returncode == 0


def _examined(chosen: Sequence[Mutant], jobs: int, examined: Callable[[Mutant], Verdict]) -> Iterator[Verdict]:
    """In the order in which they are done. Each job is a process that never plants anything itself."""
    warm_up()
    forks = multiprocessing.get_context("fork")
    done = forks.SimpleQueue()

    def work(mine: Sequence[Mutant]) -> None:
        for mutant in mine:
            verdict = examined(mutant)
            done.put((mutant.name, verdict.by, verdict.said, verdict.seconds, verdict.stale))

    workers = [forks.Process(target=work, args=(chosen[at::jobs],), daemon=True) for at in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in chosen:
        name, *rest = done.get()
        yield Verdict(MUTANTS[name], *rest)
    for worker in workers:
        worker.join()


def examine(mutant: Mutant, *, narrow: bool = False) -> Verdict:
    """One mutant: the first catcher that notices it, those that are expected to do so before all others."""
    return _first(mutant, mutant.caught_by if narrow else (*mutant.caught_by, *WIDER, *WIDEST))


def survey(mutant: Mutant) -> Verdict:
    """One mutant, before those who know nothing of it."""
    return _first(mutant, STORIES)


def _first(mutant: Mutant, catchers: Sequence[str]) -> Verdict:
    began = time.monotonic()
    broken = ""
    for catcher in catchers:
        status, said = ask(catcher, mutant.name)
        if status == STALE:
            return Verdict(mutant, "", said, time.monotonic() - began, stale=True)
        if status == NOTICED and not _is_about_the_code_as_it_is(said):
            return Verdict(mutant, catcher, said, time.monotonic() - began)
        if status not in (NOTICED, UNNOTICED):
            broken = said or f"{catcher} ended with {status}"
    return Verdict(mutant, "", broken, time.monotonic() - began)


def ask(catcher: str, name: str | None) -> tuple[int, str]:
    """One catcher in a process of its own, with or without a mutant: (exit status, the last line it printed).

    The process is a fork of one in which nothing but imports has happened.
    """
    answer, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(told, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        notice([catcher], name)
    os.close(told)
    said = b""
    deadline = time.monotonic() + SECONDS
    while select([answer], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(answer, 1 << 16)
        if not part:
            break
        said += part
    else:
        os.killpg(child, signal.SIGKILL)
        said = b"no end within %d s" % SECONDS
    os.close(answer)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = said.decode(errors="replace").strip().splitlines()
    return NOTICED if status == -signal.SIGKILL else status, lines[-1] if lines else ""


def _is_about_the_code_as_it_is(said: str) -> bool:
    """A seed that fails without the mutant proves nothing about it."""
    seed = SEED.match(said)
    return seed is not None and ask(f"seed {seed[1]}", None)[0] != UNNOTICED


def _line(verdict: Verdict) -> str:
    name = f"{verdict.mutant.name} ({verdict.seconds:.0f} s): "
    if verdict.stale:
        return f"{name}DOES NOT APPLY ANY MORE: {verdict.said}"
    if not verdict.by:
        return f"{name}NOT NOTICED {verdict.said}"
    where = "" if verdict.as_expected else f"not where it was expected, but by {verdict.by}: "
    return f"{name}{where}{verdict.said[:160]}"


def enter() -> None:
    """Order must not depend on hashes: start again with a fixed seed where it is not fixed."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutants", *sys.argv[1:]])
    sys.exit(main())
