"""The tools beside the tests.

python -m tests.scenarios rewrite [FILE ...]    write our own answers anew into the scenarios
python -m tests.scenarios oracle [FILE ...]     run on a real Apache Kafka, record, show what differs (make oracle)
python -m tests.scenarios count                 how many stories equal Kafka's answers field by field
"""

import argparse
import difflib
import sys
import tempfile
from pathlib import Path

from tests.harness.jars import JarsMissing
from tests.scenarios import record
from tests.scenarios.language import FOLDER, NotUnderstood, Scenario, read, scenario_files, write
from tests.scenarios.places import virtual
from tests.scenarios.places.sockets import Oracle

VERSIONS = (2, 0)
TIMES = 3


def rewrite(files: list[Path]) -> int:
    for path in files:
        scenarios = read(path)
        answers = {}
        for scenario in scenarios:
            try:
                runs = [virtual.play(scenario, version) for version in scenario.versions]
            except NotUnderstood as error:
                print(error)
                continue
            for version, other in zip(scenario.versions[1:], runs[1:], strict=True):
                for step, one, two in zip(scenario.steps, runs[0], other, strict=True):
                    if one != two:
                        print(f"{path.name}: {scenario.title}: {step.text}: with transaction.version {version}:")
                        print("\n".join("    " + line for line in two))
            answers[scenario.title] = runs[0]
        path.write_text(write(path, scenarios, answers), encoding="utf-8")
    print("The answers are what the broker says, not what it should say: read the diff before you commit it.")
    return 0


def oracle(files: list[Path], running: dict[int, int]) -> int:
    """`running` are ports of Kafkas that somebody else started, by transaction.version."""
    undeclared = 0
    for version in VERSIONS:
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            try:
                kafka = Oracle(Path(folder), version)
            except JarsMissing as reason:
                print(f"no oracle: {reason}", file=sys.stderr)
                return 2
            if version in running:
                kafka.process.port = running[version]
            else:
                kafka.process.start()
            try:
                undeclared += sum(_ask(kafka, path, version) for path in files)
            finally:
                kafka.process.kill()
    print(count_line(files))
    print(f"{undeclared} undeclared differences")
    return 1 if undeclared else 0


def _ask(kafka: Oracle, path: Path, version: int) -> int:
    answers: dict[str, tuple[Scenario, record.Answers]] = {}
    undeclared = 0
    for scenario in read(path):
        if version not in scenario.versions or not record.comparable(scenario):
            continue
        try:
            answered = _answers(kafka, scenario)
        except Exception as error:
            print(f"{error}")
            undeclared += 1
            continue
        answers[scenario.title] = (scenario, answered)
        ours = [step.answer for step in scenario.steps]
        for step, expected, found in record.differences(scenario, ours, answered):
            undeclared += 1
            print(f"{path.name}:{step.line} with transaction.version {version}: {step.text}")
            for line in difflib.ndiff(expected, found):
                if line[0] in "-+":
                    print(f"    {line}")
    if answers or record.path_of(path, version).exists():
        record.save(path, version, answers)
    return undeclared


def _answers(kafka: Oracle, scenario: Scenario) -> record.Answers:
    """Kafka's. What it answered has yet to take effect there (a setting, a partition of a group): on a busy machine a
    later step may come too early, so that a difference counts when it is always there."""
    ours = [step.answer for step in scenario.steps]
    for _ in range(TIMES):
        answered = kafka.play(scenario)
        if not record.differences(scenario, ours, answered):
            break
        kafka.forget_topics()
    return answered


def count_line(files: list[Path]) -> str:
    words = []
    scenarios = [scenario for path in files for scenario in read(path)]
    for version in VERSIONS:
        runs = [scenario for scenario in scenarios if version in scenario.versions]
        compared = [scenario for scenario in runs if record.comparable(scenario)]
        equal = declared = 0
        for scenario in compared:
            kafka = record.recorded(scenario, version)
            ours = [step.answer for step in scenario.steps]
            equal += kafka == ours
            declared += kafka is not None and kafka != ours and not record.differences(scenario, ours, kafka)
        words.append(
            f"transaction.version {version}: {len(runs)} scenarios, {len(compared)} asked of Kafka, {equal} equal in"
            f" every field, {declared} with a declared difference"
        )
    return "\n".join([f"{len(scenarios)} scenarios", *words])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios", description=__doc__)
    parser.add_argument("what", choices=("rewrite", "oracle", "count"))
    parser.add_argument("files", nargs="*", help="names of scenario files; all of them by default")
    parser.add_argument("--at", action="append", default=[], metavar="VERSION=PORT", help="a Kafka that runs already")
    arguments = parser.parse_args()
    files = [FOLDER / name for name in arguments.files] or scenario_files()
    if arguments.what == "count":
        print(count_line(files))
        return 0
    if arguments.what == "rewrite":
        return rewrite(files)
    running = (pair.split("=") for pair in arguments.at)
    return oracle(files, {int(version): int(port) for version, port in running})


if __name__ == "__main__":
    sys.exit(main())
