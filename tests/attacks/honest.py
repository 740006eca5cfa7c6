"""`python -m tests.attacks.honest BOOTSTRAP RUN LOOPS`: the honest client as a process of its own beside an attack,
so that what the attacker computes is not taken for a wait. It warms up, says "ready", goes on until its input ends, and
prints what it has seen.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from tests.attacks.honest_loops import LOOPS, Loop, Refused
from tests.attacks.wire import PATIENCE_S, Hangup

WARM_UP_ROUNDS = 3


@dataclass
class Seen:
    """What the honest client reported: by loop."""

    loops: dict[str, dict[str, Any]]

    @property
    def refused(self) -> list[str]:
        return [f"{name}: {loop['refused']}" for name, loop in self.loops.items() if loop["refused"]]

    def worst_ms(self, *names: str) -> float:
        return max((self.loops[name]["worst_ms"] for name in names or self.loops if name in self.loops), default=0.0)

    def rounds(self) -> int:
        return sum(loop["rounds"] for loop in self.loops.values())

    def long_waits(self) -> int:
        """Rounds of the probe over 100 ms."""
        return int(self.loops["probe"]["over_100_ms"]) if "probe" in self.loops else 0

    def acknowledged(self, name: str) -> dict[int, str]:
        return {int(offset): value for offset, value in self.loops.get(name, {}).get("acknowledged", {}).items()}


class Honest:
    """The process, seen from the attacker's side."""

    def __init__(self, bootstrap: str, run: str, loops: tuple[str, ...]) -> None:
        command = [sys.executable, "-m", "tests.attacks.honest", bootstrap, run, ",".join(loops)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the honest client did not get ready"

    def finish(self) -> Seen:
        """Let it finish its rounds, and hear what it has seen."""
        printed, _ = self._process.communicate("", timeout=2 * PATIENCE_S)
        return Seen(json.loads(printed))

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def _live(loop: Loop, warm: threading.Barrier, stop: threading.Event) -> None:
    try:
        loop.prepare()
        for _ in range(WARM_UP_ROUNDS):
            loop.counted_round()
        loop.tally.begin()
    except (Hangup, Refused, TimeoutError, OSError) as error:
        loop.tally.refused = f"while it warmed up: {error or type(error).__name__}"
    warm.wait()
    try:
        while not stop.is_set() and not loop.tally.refused:
            loop.counted_round()
            time.sleep(loop.pause_s)
        if not loop.tally.refused:
            loop.finish()
    except (Hangup, Refused, TimeoutError, OSError) as error:
        loop.tally.refused = str(error) or type(error).__name__


def _summary(loop: Loop) -> dict[str, Any]:
    waits = loop.tally.waits_ms
    return {
        "rounds": loop.tally.rounds,
        "worst_ms": max(waits, default=0.0),
        "p50_ms": statistics.median(waits) if waits else 0.0,
        "over_20_ms": sum(wait > 20 for wait in waits),
        "over_100_ms": sum(wait > 100 for wait in waits),
        "refused": loop.tally.refused,
        "acknowledged": loop.tally.acknowledged,
    }


def main() -> None:
    bootstrap, run, names = sys.argv[1:]
    loops = {name: LOOPS[name](bootstrap, run) for name in names.split(",")}
    stop = threading.Event()
    warm = threading.Barrier(len(loops) + 1)
    threads = [threading.Thread(target=_live, args=(loop, warm, stop), daemon=True) for loop in loops.values()]
    for thread in threads:
        thread.start()
    warm.wait()
    print("ready", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    for loop, thread in zip(loops.values(), threads, strict=True):
        if thread.is_alive():
            loop.tally.refused = f"not answered for {PATIENCE_S:.0f} s"
    print(json.dumps({name: _summary(loop) for name, loop in loops.items()}))


if __name__ == "__main__":
    main()
