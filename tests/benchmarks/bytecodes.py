"""`python -m tests.benchmarks.bytecodes OTHER`: how many bytecodes a request takes in this tree's broker and in that of
another work tree, function by function.

OTHER is as for `tests.benchmarks.pairs`, and so are the rows. What is counted is what the thread of the loop
interprets: a busy machine changes nothing in a function, only how often it is called for what goes on beside requests.
Work in C, in the kernel and in other threads is not seen. It is slow: some three milliseconds for a request.

--rows "1 KB;fetch"   only rows with these words     --requests 200     --functions 20   that differ most
--set KEY=VALUE   a setting of this tree's broker; with OTHER this tree, too: what it costs
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tallystick.process import PACKAGES
from tests.benchmarks import pairs

PROGRAM = """
import json, os, runpy, socket, sys, threading
counts, root = {}, os.environ["PYTHONPATH"] + "/"
def each(frame, event, argument):
    if event == "opcode":
        counts[frame.f_code] = counts.get(frame.f_code, 0) + 1
    return each
def entered(frame, event, argument):
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    return each
def tell():
    while True:
        asking, _ = server.accept()
        said = [(f"{of.co_filename.removeprefix(root)} {of.co_name}", count) for of, count in list(counts.items())]
        with asking:
            asking.sendall(json.dumps(said).encode())
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
threading.Thread(target=tell, daemon=True).start()
sys.argv = sys.argv[2:]
sys.settrace(entered)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module, counts the bytecodes of its main thread, and tells them to whoever connects."""


class Counted(pairs.Broker):
    """A broker whose bytecodes are counted."""

    def __init__(self, folder: Path, tree: Path, settings: dict[str, str]) -> None:
        super().__init__(folder, tree, settings, pairs.PAGE_CACHE)
        self.start_seconds = 600
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._counter = free.getsockname()[1]

    def _command(self, ready: Path) -> list[str]:
        command = super()._command(ready)
        module = command.index("-m")  # `tallystick serve` becomes another program: what is counted is the broker itself
        return [*command[:module], "-c", PROGRAM, str(self._counter), "broker", *command[module + 3 :]]

    def bytecodes(self) -> Counter[str]:
        with socket.create_connection(("127.0.0.1", self._counter)) as asked, asked.makefile("rb") as said:
            found: Counter[str] = Counter()
            for function, count in json.load(said):
                found[function] += count
            return found


async def _of_one(broker: Counted, row: str, requests: int) -> dict[str, float]:
    """Of one request, by function. What a load does before its requests is in a shorter one, too."""
    load: Any = pairs.ROWS[row][1]
    await load(broker, requests)  # whatever is compiled or opened for the first time
    taken: list[Counter[str]] = []
    for count in (requests, 2 * requests):
        before = broker.bytecodes()
        await load(broker, count)
        taken.append(broker.bytecodes() - before)
    each = requests // 4 if "transaction" in row else requests
    functions = taken[0].keys() | taken[1].keys()
    return {name: (taken[1][name] - taken[0][name]) / each for name in functions}


async def measure(here: Counted, there: Counted, rows: list[str], requests: int, functions: int) -> None:
    for row in rows:
        ours, theirs = [await _of_one(broker, row, requests) for broker in (here, there)]
        total, before = sum(ours.values()), sum(theirs.values())
        print(f"{row}: bytecodes here {total:.0f}, there {before:.0f}, ratio {total / before:.3f}")
        differences = {name: ours.get(name, 0) - theirs.get(name, 0) for name in ours.keys() | theirs.keys()}
        for name in sorted(differences, key=lambda name: -abs(differences[name]))[:functions]:
            print(f"  {differences[name]:+8.1f}  {name}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.bytecodes", description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rows", default="100 B, acks;fetch, 1 KB;transaction, 1 producer")
    parser.add_argument("--functions", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    chosen = parser.parse_args()
    rows = [row for row in pairs.ROWS if any(part in row for part in chosen.rows.split(";")) and "durable" not in row]
    settings = dict(one.split("=", 1) for one in chosen.settings)
    with tempfile.TemporaryDirectory(prefix="tallystick-bytecodes-") as folder:
        here = Counted(Path(folder, "here"), PACKAGES, settings)
        there = Counted(Path(folder, "there"), chosen.other.resolve(), {})
        try:
            for broker in (here, there):
                broker.start()
            asyncio.run(measure(here, there, rows, chosen.requests, chosen.functions))
        finally:
            for broker in (here, there):
                broker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
