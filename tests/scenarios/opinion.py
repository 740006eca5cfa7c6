"""What a second opinion says of stories, of the files or made up at random, told to us or to Apache Kafka.

    python -m tests.scenarios.opinion [--kafka] --version 2 --start 0 --count 100
    python -m tests.scenarios.opinion [--kafka] --version 2 groups.txt reading.txt

The answers that the stories expect play no part: the model of `tests.opinion` judges what was said on the wire.
"""

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.opinion.judge import judge
from tests.opinion.trace import Circumstances, Objection, Trace
from tests.scenarios import engine, record
from tests.scenarios.at_random import comparing, transactions
from tests.scenarios.language import FOLDER, NotUnderstood, Scenario, Step, read, scenario_files
from tests.scenarios.places import virtual
from tests.scenarios.places.sockets import KAFKA, Oracle

BEHIND_ITS_BACK = ("damage", "lose", "fault")
ENDS = ("crash", "power", "stop", "restart")
DAY_S = 86_400
GROUPS_CHECKED_EVERY_S = 600


def judged(scenario: Scenario) -> bool:
    """Whether everything that is done to the broker is done by requests, or is known to the model."""
    settings = scenario.settings
    loses = scenario.uses("power") and settings.get("tallystick.durability") == "page-cache"
    unverified = settings.get("transaction.partition.verification.enable") == "false"
    return not (scenario.uses(*BEHIND_ITS_BACK) or loses or unverified)


def to_the_end(scenario: Scenario) -> Scenario:
    """The same story, and at its end a look at every partition."""
    looks = []
    for step in scenario.steps:
        words = step.words
        if words[0] == "topic":
            counts = [int(word.removeprefix("partitions=")) for word in words if word.startswith("partitions=")]
            looks += [f"log {words[1]}-{index}" for index in range(counts[0] if counts else 1)]
    deleted = any("DeleteTopics" in step.text for step in scenario.steps)
    ends = any(step.text.startswith(ENDS) for step in scenario.steps)
    if deleted or ends:
        return scenario
    return dataclasses.replace(scenario, steps=[*scenario.steps, *(Step(text, 0) for text in looks)])


def circumstances_of(scenario: Scenario, version: int) -> Circumstances:
    """What the story does to the broker that is no request."""
    changes = any("UpdateFeatures" in step.text for step in scenario.steps)
    own, seconds = scenario.is_of_another_broker, _passes_s(scenario)
    return Circumstances(
        restarts=scenario.uses(*ENDS),
        forgets_producers=own or seconds >= DAY_S,
        forgets_ids=own or seconds >= 7 * DAY_S,
        forgets_offsets=own or seconds >= 7 * DAY_S,
        forgets_groups=own or seconds >= GROUPS_CHECKED_EVERY_S,
        deletes_old_records=own or seconds > 0,
        transactions_time_out=scenario.uses("clock"),
        level=None if changes else version,
        longest_timeout_ms=int(scenario.settings.get("transaction.max.timeout.ms", "900000")),
        offsets_partitions=int(KAFKA["offsets.topic.num.partitions"]),
    )


def _passes_s(scenario: Scenario) -> float:
    """How much time the story lets pass, or sets the clock back by."""
    words = [step.words for step in scenario.steps if step.text.startswith(("advance", "clock"))]
    return sum(float(one[-2]) * engine.UNITS_S[one[-1]] for one in words)


def of_ours(scenario: Scenario, version: int) -> list[Objection]:
    """What is wrong with our own answers."""
    trace = Trace()
    virtual.play(to_the_end(scenario), version, trace)
    return judge(trace, circumstances_of(scenario, version))


def of_kafka(kafka: Oracle, scenario: Scenario, version: int) -> list[Objection]:
    """What is wrong with Kafka's, until the story is at its end or does not get there."""
    try:
        kafka.play(to_the_end(scenario))
    except NotUnderstood as error:
        print(f"    {error}")
    return judge(kafka.trace, circumstances_of(scenario, version))


def stories(options: argparse.Namespace) -> Iterator[Scenario]:
    """Those of the files, or those of the seeds."""
    if not options.files:
        for seed in range(options.start, options.start + options.count):
            steps = transactions.Author(seed, options.version).story()
            yield comparing.scenario(f"seed {seed}", options.version, steps)
        return
    paths = scenario_files() if options.files == ["all"] else [FOLDER / name for name in options.files]
    for path in paths:
        for scenario in read(path):
            asked = not options.kafka or record.comparable(scenario)
            if options.version in scenario.versions and asked and judged(scenario):
                yield scenario


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.opinion", description=__doc__)
    parser.add_argument("--kafka", action="store_true", help="ask Apache Kafka instead of us")
    parser.add_argument("--version", type=int, default=2, help="transaction.version of the cluster: 0 or 2")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("files", nargs="*", help="scenario files, or `all`; random stories without")
    options = parser.parse_args()
    engine.ATTEMPTS = 300
    told = odd = 0
    with tempfile.TemporaryDirectory(prefix="opinion-") as folder:
        kafka = Oracle(Path(folder), options.version) if options.kafka else None
        if kafka is not None:
            kafka.process.start()
        try:
            for scenario in stories(options):
                args = scenario, options.version
                found = of_ours(*args) if kafka is None else of_kafka(kafka, *args)
                declared = options.kafka and any(step.kafka for step in scenario.steps)
                told += 1
                odd += bool(found) and not declared
                for objection in found:
                    print(f"{scenario.name}{' (declared)' * declared}\n    {objection}", flush=True)
        finally:
            if kafka is not None:
                kafka.process.kill()
    print(f"{told} stories, {odd} with objections")
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
