"""`python -m tests.simulation --seeds N --start S --jobs J`: many runs, what they met, and what failed.

Exit status 1 where a seed failed, or where a run of some hundred seeds did not meet everything it should.
"""

import argparse
import gc
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation.coverage import MET_BY_NODES, MET_OVER_A_STORE, missing
from tests.simulation.defects import DEFECTS, planted
from tests.simulation.nodes.run import run_several
from tests.simulation.plan import Plan, draw
from tests.simulation.shrink import shrink
from tests.simulation.simulation import Result, run
from tests.simulation.stored import draw_line, draw_stored

CHUNK = 10
COVERAGE_FROM = 400
"""A shorter run need not meet everything."""
SHOWN_EVENTS = 60


def main(arguments: list[str] | None = None) -> int:
    """See the head of this file."""
    options = _options(arguments)
    if options.defect:
        return hunt(options.defect)
    if options.start is None:
        options.start = int(time.time()) % 1_000_000 * 1000
    began = time.monotonic()
    done, operations, records = 0, 0, 0
    hits: Counter[str] = Counter()
    failed: list[Result] = []
    work = _work(options)
    for result in _results(range(options.start, options.start + options.seeds), options.jobs, work):
        done += 1
        operations += result.operations
        records += result.records
        hits.update(result.hits)
        if result.violations:
            failed.append(result)
            print(f"seed {result.seed} FAILED: {result.violations[0][:300]}", flush=True)
            if len(failed) >= options.failures:
                break
        if done % options.every == 0:
            print(_progress(done, options.seeds, began, operations, len(failed)), flush=True)
    print(_progress(done, options.seeds, began, operations, len(failed)))
    print(f"{operations / max(1, done):.0f} requests and {records / max(1, done):.0f} records a seed")
    over_a_store = options.stored or options.nodes > 1
    for result in () if over_a_store else failed[: options.shrink]:
        report(result)
    unmet = missing(hits, done)
    if over_a_store:
        unmet = [name for name in (MET_BY_NODES if options.nodes > 1 else MET_OVER_A_STORE) if name not in hits]
    if options.coverage:
        print("\n".join(f"{count:8d} {name}" for name, count in sorted(hits.items())))
    print(f"not met: {', '.join(unmet) or 'nothing'}")
    return 1 if failed or (unmet and done >= COVERAGE_FROM) else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--start", type=int, help="the first seed; fresh ones without")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2)))
    parser.add_argument("--every", type=int, default=100, help="a line of progress after so many seeds")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--shrink", type=int, default=1, help="how many failures to shrink")
    parser.add_argument("--stored", action="store_true", help="over a shared store, which is asked over a bad line")
    parser.add_argument("--nodes", type=int, default=1, help="several over one shared store, with faults of their own")
    parser.add_argument("--coverage", action="store_true", help="print what was met, and how often")
    parser.add_argument("--defect", choices=(*DEFECTS, "all"), help="plant it, and see how many seeds it takes")
    return parser.parse_args(arguments)


def hunt(wanted: str) -> int:
    """Plant defects, and look for the first seed that notices each."""
    missed = 0
    for name in DEFECTS if wanted == "all" else (wanted,):
        with planted(name) as defect:
            seed, text = first_failure(defect.seeds, defect.tells)
        missed += seed is None
        print(f"{name}: {'NOT NOTICED' if seed is None else f'seed {seed}'} {text[:160]}", flush=True)
    return 1 if missed else 0


def first_failure(seeds: int, tells: str = "") -> tuple[int | None, str]:
    """The first seed that fails with such a sentence, and the sentence."""
    for seed in range(seeds):
        for sentence in run(draw(seed)).violations:
            if sentence.startswith(tells):
                return seed, sentence
    return None, ""


def run_stored(seeds: list[int]) -> list[Result]:
    """The same over a shared store."""
    return run_seeds(seeds, lambda seed: run(draw_stored(seed), line=draw_line(seed)))


def run_nodes(nodes: int, seeds: list[int]) -> list[Result]:
    """The same with several nodes over it."""
    return run_seeds(seeds, partial(run_several, nodes=nodes))


def _work(options: argparse.Namespace) -> Callable[[list[int]], list[Result]]:
    if options.nodes > 1:
        return partial(run_nodes, options.nodes)
    return run_stored if options.stored else run_seeds


def run_seeds(seeds: list[int], run_one: Callable[[int], Result] = lambda seed: run(draw(seed))) -> list[Result]:
    """Some runs in this process. Histories stay here, and are gone before what is left of a run is collected, as is
    what was there before from the collector's view: a tenth of the time of a run would go into looking at what needs no
    collecting. What was still in use at that moment is collected once at the end: it would otherwise add up to
    gigabytes over ten thousand seeds."""
    results = []
    collecting, hook = gc.isenabled(), sys.unraisablehook
    gc.disable()
    gc.freeze()
    sys.unraisablehook = lambda found: None  # what is left of dead processes complains that there is no loop any more
    try:
        for seed in seeds:
            result = run_one(seed)
            if result.history is not None:
                result.history.discard()
            result.history = None
            results.append(result)
            gc.collect(0)
    finally:
        gc.collect()
        gc.unfreeze()
        sys.unraisablehook = hook
        if collecting:
            gc.enable()
    return results


def _results(seeds: range, jobs: int, work: Callable[[list[int]], list[Result]]) -> Iterable[Result]:
    chunks = [list(seeds[at : at + CHUNK]) for at in range(0, len(seeds), CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            yield from work(chunk)
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            for results in pool.map(work, chunks):
                yield from results
        finally:
            pool.shutdown(cancel_futures=True)


def _progress(done: int, seeds: int, began: float, operations: int, failed: int) -> str:
    elapsed = time.monotonic() - began
    return f"{done}/{seeds} seeds, {done / elapsed:.1f} a second, {operations} requests, {failed} failed"


def report(result: Result) -> None:
    """A failure, made as small as it gets."""
    plan = draw(result.seed)
    print(f"\nseed {result.seed}, commit {_commit()}: shrinking", flush=True)
    smallest, found = shrink(plan, run(plan))
    print(describe(smallest, found))


def describe(plan: Plan, result: Result) -> str:
    """A failure for a reader: the plan, the end of its history, what was wrong."""
    assert result.history is not None
    lines = [f"{plan.duration_s} s, {plan.partitions} partitions, final {plan.final!r}, page cache {plan.page_cache}"]
    lines += [f"client {one.name} from {one.start_s:.3f}: {dict(one.options)}" for one in plan.clients]
    lines += [
        f"fault {one.kind} at {one.at_s:.3f} {one.operation} x{one.count} {one.amount:g} down {one.down_s}"
        for one in plan.faults
    ]
    if plan.silence is not None:
        lines.append(f"{plan.silence}")
    events = result.history.events
    lines += [f"  ... {max(0, len(events) - SHOWN_EVENTS)} events before"]
    lines += [f"  {event!r}"[:240] for event in events[-SHOWN_EVENTS:]]
    lines += [f"WRONG {text}"[:2000] for text in result.violations[:10]]
    return "\n".join(lines)


def _commit() -> str:
    try:
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    except FileNotFoundError:  # There is no git.
        return "unknown"
    return found.stdout.strip() or "unknown"


def enter() -> None:
    """Order must not depend on hashes: start again with a fixed seed where it is not fixed."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
