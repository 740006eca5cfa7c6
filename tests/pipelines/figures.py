"""What a run reports beside its verdict: latencies of micro-batches, recoveries, stalls."""

from collections.abc import Mapping, Sequence

from tests.pipelines.chart import Picture
from tests.pipelines.director import Told
from tests.pipelines.stall import Sampler, longest_stall_s


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which so many lie; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def of_run(results: Told, samplers: Mapping[str, Sampler]) -> dict[str, object]:
    queries = sorted({query for query, *_ in results.batches})
    took = {query: [ms for name, _, ms, _ in results.batches if name == query] for query in queries}
    return {
        "strikes": results.strikes,
        "aborted_transactions": results.aborted,
        "restarts": results.restarts,
        "recoveries_s": {kind: [round(one, 1) for one in all_] for kind, all_ in results.recoveries_s.items()},
        "batch_ms": {
            query: {"n": len(ms), "p50": round(percentile(ms, 0.5)), "p99": round(percentile(ms, 0.99))}
            for query, ms in took.items()
        },
        "longest_stall_s": {name: round(longest_stall_s(sampler.samples), 1) for name, sampler in samplers.items()},
    }


def picture(name: str, records: int, results: Told, sampler: Sampler) -> Picture:
    """A pipeline's run as a chart."""
    struck = [(at_s, event) for at_s, event in results.events if event.startswith("SIGKILL")]
    return Picture(
        title=f"{name}: {records:,} records in, {len(struck)} kills",
        latencies_ms=[(at_s, ms) for query, at_s, ms, _ in results.batches if query == name],
        waiting=[(sample.at_s, float(sample.waiting)) for sample in sampler.samples],
        faults=[(at_s, event.split(" (pid")[0].split()[-1]) for at_s, event in struck],
    )
