"""`python -m tests.attacks [CASE …]`: the long form of the attacks, written to docs/attacks.md.

CASE …       only these cases           --short      the sizes of `make test`
--kafka      Apache Kafka, not us       --no-write   print only
--tls        over TLS                        --sasl       by clients that say who they are
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.attacks import report
from tests.attacks.registry import load_cases
from tests.attacks.trial import Outcome, Trial
from tests.harness.jars import JarsMissing


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make attack ARGS=", description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(load_cases()))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--sasl", action="store_true")
    chosen = parser.parse_args()
    if (chosen.tls or chosen.sasl) and chosen.kafka:
        parser.error("--tls and --sasl are for our broker")
    if unknown := set(chosen.cases) - set(load_cases()):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(load_cases())}")
    if chosen.sasl:  # some have a listener with SASL of their own
        chosen.cases = [name for name in chosen.cases if "listeners" not in load_cases()[name].settings]
    return chosen


def attacked_broker(chosen: argparse.Namespace) -> str:
    """The table of docs/attacks.md that the figures are for."""
    return report.KAFKA if chosen.kafka else report.GUARDED.get((chosen.tls, chosen.sasl), report.OURS)


def described(outcome: Outcome) -> str:
    figures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.figures.items())
    notes = "; ".join(outcome.notes[:3])
    return f"{outcome.case:36} {'held' if outcome.held else ' AND '.join(outcome.problems)[:4000]} ({figures}) {notes}"


def attacked(name: str, chosen: argparse.Namespace) -> Outcome:
    case = load_cases()[name]
    folder = Path(tempfile.mkdtemp(prefix="tallystick-attack-"))
    try:
        sizes = case.short if chosen.short else case.long
        return Trial(case, sizes, folder, kafka=chosen.kafka, tls=chosen.tls, sasl=chosen.sasl).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    chosen = options()
    outcomes: list[Outcome] = []
    try:
        for name in chosen.cases:
            if load_cases()[name].on_kafka or not chosen.kafka:
                outcomes.append(attacked(name, chosen))
                print(described(outcomes[-1]), flush=True)
                if not chosen.no_write and not chosen.short:
                    report.save(attacked_broker(chosen), outcomes[-1:])
    except JarsMissing as reason:
        print(f"Apache Kafka cannot be had ({reason})", file=sys.stderr)
        return 1
    if chosen.kafka:
        return 0
    stalls = [] if chosen.short else stalls_beside_control(attacked_broker(chosen), outcomes)
    for name in stalls:
        print(f"{name}: more turns over 100 ms than in the control run")
    return int(any(not outcome.held for outcome in outcomes) or bool(stalls))


def stalls_beside_control(broker: str, outcomes: list[Outcome]) -> list[str]:
    """On an idle machine there are none in the control run, and so none is allowed."""
    known = report.load().get(report.CONTROL, {}).get(broker, {})
    control = known.get("figures", {})
    return [outcome.case for outcome in outcomes if report.stalled(outcome, control)]


if __name__ == "__main__":
    sys.exit(main())
