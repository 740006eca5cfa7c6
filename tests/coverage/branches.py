"""Which branches of the code no story takes, by module:

    python -m tests.coverage.branches [storage broker/partitions ...] [--seeds 300]

Measured by coverage.py, which `make .venv/.mutants` brings, in this process: nothing that is measured may be imported
before it has begun. What is never reached at all is shown by its first line.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage

PROJECT = Path(__file__).parents[2]
ROOMS = ("broker", "coordinator", "storage", "keystores", "protocol")
NO_BRANCHES = (r"\.\.\.$", r"assert_never\(", "if TYPE_CHECKING")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage.branches", description=__doc__)
    parser.add_argument("folders", nargs="*", default=ROOMS)
    parser.add_argument("--seeds", type=int, default=300, help="so many of the simulation, beside all scenarios")
    arguments = parser.parse_args()
    for path, measured in sorted(_measured(arguments.folders, arguments.seeds).items()):
        summary = measured["summary"]
        print(f"{path}: {summary['covered_branches']} of {summary['num_branches']} branches")
        print("".join(f"    {line}\n" for line in _never(PROJECT / path, measured)), end="")
    return 0


def _measured(folders: list[str], seeds: int) -> dict[str, Any]:
    """Per file what coverage.py's report in JSON says of it."""
    sources = [str(PROJECT / folder) + ("" if folder.endswith(".py") else "/*") for folder in folders]
    measuring = coverage.Coverage(data_file=None, include=sources, config_file=False, branch=True)
    for pattern in NO_BRANCHES:
        measuring.exclude(pattern)
    measuring.start()
    from tests.coverage import stories

    stories.play_all(seeds)
    measuring.stop()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        measuring.json_report(outfile=str(report))
        files: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["files"]
    return files


def _never(path: Path, measured: dict[str, Any]) -> Iterator[str]:
    """`line → line` with the text of the first; blocks that are never entered by their first line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    missing = set(measured["missing_lines"])
    for begin, end in measured["missing_branches"]:
        if begin not in missing:
            target = "the end" if end < 0 else f"{end}: {lines[end - 1].strip()}"
            yield f"{begin}: {lines[begin - 1].strip()}    → {target}"
    for line in sorted(missing):
        if lines[line - 1].lstrip().startswith(("def ", "async def ", "class ", "@")):
            yield f"{line}: {lines[line - 1].strip()}    is never made"


if __name__ == "__main__":
    sys.exit(main())
