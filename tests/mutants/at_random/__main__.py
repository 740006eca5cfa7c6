"""`make mutants-at-random N=300 SEED=7`: a draw of automatic defects, and the score in docs/mutants.md.

A run that was ended goes on where it was, as long as the code is the same. Exit status 1 where the score is below
`--goal`, 2 where the tests fail without any defect.
"""

import argparse
import multiprocessing
import os
import random
import sys
from collections.abc import Iterator, Sequence

from tests.mutants.at_random.draw import drawn
from tests.mutants.at_random.reach import HERE, TESTS, Map, TestsFail, fingerprint, measured
from tests.mutants.at_random.record import Verdict, counts, goes_for, note, read, report, survivors
from tests.mutants.at_random.source import Defect
from tests.mutants.at_random.trial import tried
from tests.mutants.catchers import SECONDS, warm_up
from tests.mutants.collected import with_collected
from tests.mutants.page import SCORE, rewrite_sections


def main(arguments: Sequence[str] | None = None) -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser(prog="make mutants-at-random", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None, help="of the draw (default: a fresh one)")
    parser.add_argument("--part", default="", help="only files with this in their path; the page stays as it is")
    parser.add_argument("--kinds", default="", help="only these, with commas between; the page stays as it is")
    parser.add_argument("--jobs", type=int, default=max(1, os.cpu_count() or 2))
    parser.add_argument("--goal", type=float, default=0.95)
    parser.add_argument("--quick", action="store_true", help="without the thousand seeds; the page stays as it is")
    parser.add_argument("--few", action="store_true", help="without all that is broad; the page stays as it is")
    options = parser.parse_args(arguments)
    asked = "few" if options.few else "quick" if options.quick else "all"
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    try:
        reach = measured()
    except TestsFail:
        print("the tests fail without any defect")
        return 2
    defects = drawn(seed, options.count, options.part, options.kinds.split(",") if options.kinds else ())
    path = HERE / f"{seed}-{fingerprint()}.jsonl"
    known = [verdict for verdict in read(path) if goes_for(verdict, asked)]
    verdicts = [next((one for one in known if one.is_about(defect)), None) for defect in defects]
    print(f"seed {seed}: {len(defects)} drawn, {len(defects) - verdicts.count(None)} of them done before", flush=True)
    open_ones = [defect for defect, verdict in zip(defects, verdicts, strict=True) if verdict is None]
    done = [verdict for verdict in verdicts if verdict is not None]

    def try_them() -> None:
        for verdict in _tried(open_ones, reach, options.jobs, asked=asked):
            note(path, verdict)
            done.append(verdict)
            print(f"{len(done)}/{len(defects)} {_line(verdict)}", flush=True)

    if open_ones:
        with_collected(TESTS, SECONDS / 5, try_them)
    text = report(seed, done)
    print(text)
    if not options.part and not options.kinds and asked == "all":
        SCORE.write_text(text, encoding="utf-8")
        rewrite_sections()
    return 0 if len(survivors(done)) <= (1 - options.goal) * sum(map(counts, done)) else 1


def _tried(defects: Sequence[Defect], reach: Map, jobs: int, *, asked: str) -> Iterator[Verdict]:
    """In the order in which they are done. Each job is a process that never plants anything itself."""
    warm_up()
    reached = [reach.of(defect) for defect in defects]
    forks = multiprocessing.get_context("fork")
    done: multiprocessing.SimpleQueue[Verdict] = forks.SimpleQueue()
    left = forks.Value("i", 0)

    def work() -> None:
        while True:
            with left.get_lock():
                at, left.value = left.value, left.value + 1
            if at >= len(defects):
                return
            done.put(tried(defects[at], reached[at], asked=asked))

    workers = [forks.Process(target=work, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in defects:
        yield done.get()
    for worker in workers:
        worker.join()


def _line(verdict: Verdict) -> str:
    change = f"{verdict.path}:{verdict.line} {verdict.before[:80]!r} -> {verdict.after[:80]!r}"
    return f"({verdict.seconds:.0f} s) {verdict.by or 'NOT NOTICED'}: {change} {verdict.said[:80]}"


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutants.at_random", *sys.argv[1:]])
    sys.exit(main())
