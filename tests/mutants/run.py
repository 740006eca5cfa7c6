"""`make mutants`: plant one mutant at a time, each in processes of its own, and see what notices it.

Each has to be noticed by a story: a scenario, or a seed of the simulation among the first 150. The one that is known to
(`stories.json`) is run first, then all of them. The unit test that was written for it is run beside that; it is the
one that counts where the table says why no story can notice.
Before that, tests must be content with the code as it is; a seed of the simulation that noticed something is run once
more without the mutant. Exit status 1 where nobody notices a mutant, or one does not apply any more, 2 where a test
fails without any.
The page has its line for each as soon as it was examined, and those of the others stay: a run may be done in pieces
(names, or `--since` the one at which the last run ended).
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import dropwhile

from tests.mutants.asking import Verdict, examine
from tests.mutants.catchers import warm_up
from tests.mutants.mutant import VARIABLE, Mutant
from tests.mutants.page import write
from tests.mutants.stories import is_story, known_stories, remember
from tests.mutants.tables import MUTANTS


def main(arguments: Sequence[str] | None = None) -> int:
    """See the head of this file."""
    options = _options(arguments)
    chosen = [mutant for mutant in MUTANTS.values() if _is_chosen(mutant, options.names, exact=options.exact)]
    if options.since:
        chosen = list(dropwhile(lambda mutant: options.since not in mutant.name, chosen))
    if options.missing:
        known = known_stories()
        chosen = [mutant for mutant in chosen if mutant.name not in known]
    if options.stories or options.missing:
        chosen = [mutant for mutant in chosen if not mutant.unseen]
    if not chosen:
        print("there is no such mutant")
        return 0 if options.missing else 2
    tests = not (options.stories or options.missing)
    if tests and not options.unchecked and not sound(chosen):
        return 2
    verdicts = []
    for verdict in _examined(chosen, options.jobs, partial(examine, narrow=options.narrow, tests=tests)):
        verdicts.append(verdict)
        print(_line(verdict, tests=tests), flush=True)
        if not options.narrow:
            remember({verdict.mutant.name: verdict.story})
            if tests:
                write([verdict])
    by = Counter(verdict.story.partition(" ")[0] for verdict in verdicts if verdict.story)
    noticed = sum(verdict.noticed for verdict in verdicts)
    kinds = ", ".join(f"{by[kind]} by a {kind}" for kind in ("scenario", "seed"))
    print(f"{noticed} of {len(verdicts)} noticed: {kinds}, {noticed - by.total()} by a test alone")
    return 0 if noticed == len(verdicts) and not any(verdict.trouble for verdict in verdicts) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants, or parts of their names; all of them by default")
    parser.add_argument("--jobs", type=int, default=max(1, os.cpu_count() or 2))
    parser.add_argument("--exact", action="store_true", help="names are whole names")
    parser.add_argument("--stories", action="store_true", help="ask stories alone, no unit tests")
    parser.add_argument("--missing", action="store_true", help="stories, of mutants of which none is known yet")
    parser.add_argument("--since", metavar="NAME", help="this one, and those behind it in the tables")
    parser.add_argument("--narrow", action="store_true", help="only what is expected to notice each")
    parser.add_argument(
        "--unchecked", action="store_true", help="do not look first whether all is well without mutants"
    )
    return parser.parse_args(arguments)


def _is_chosen(mutant: Mutant, names: Sequence[str], *, exact: bool) -> bool:
    return not names or any(name == mutant.name if exact else name in mutant.name for name in names)


def sound(chosen: Sequence[Mutant]) -> bool:
    """Whether the catchers that are tests are content without a mutant. Simulations are looked at when they notice."""
    tests = sorted({f"tests/{one}" for mutant in chosen for one in mutant.caught_by if not is_story(one)})
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
            found = examined(mutant)
            words = found.story, found.story_said, found.test, found.test_said
            done.put((mutant.name, *words, found.seconds, found.trouble))

    workers = [forks.Process(target=work, args=(chosen[at::jobs],), daemon=True) for at in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in chosen:
        name, *rest = done.get()
        yield Verdict(MUTANTS[name], *rest)
    for worker in workers:
        worker.join()


def _line(verdict: Verdict, *, tests: bool) -> str:
    name = f"{verdict.mutant.name} ({verdict.seconds:.0f} s): "
    if verdict.trouble:
        return f"{name}{verdict.trouble}"
    if not verdict.noticed:
        return f"{name}NOT NOTICED by {'its test' if verdict.mutant.unseen else 'a story'}"
    expected = tests and any(not is_story(one) for one in verdict.mutant.caught_by)
    beside = ", and no unit test" if expected and not verdict.test else ""
    return f"{name}{(verdict.story_said or verdict.test_said)[:160]}{beside}"


def enter() -> None:
    """Order must not depend on hashes: start again with a fixed seed where it is not fixed."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutants", *sys.argv[1:]])
    sys.exit(main())
