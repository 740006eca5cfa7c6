"""The walk of `docs/tutorial.md`: only addresses are ours.

What stands behind a block's language says what becomes of it: a file, a page to be fetched, or a terminal in which a
program goes on. A first line that is empty is the Enter key. What is shown has to come, line by line; times and
addresses may be others, and `...` is any lines.
"""

import contextlib
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

from tests.harness.confluent import wait_until
from tests.harness.proxy import free_port
from tests.harness.source_tree import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCKS: list[tuple[str, str, str]] = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
"""Language, place and text of each."""
PROGRAMS = {name: [sys.executable, "-m", name] for name in ("tallystick", "pytest")} | {"python": [sys.executable]}
LENGTH = r"(?:\d+ (?:ms|s|min|h)\b ?)+"
LOOSE = {
    r"(?<=data in )[^;]+": r"[^;]+",
    LENGTH: LENGTH,
    r"\d+\.\d+(?=s$)": r"[\d.]+",
    r"\d{4}-\d\d-\d\d": r"[\d-]+",
    r"\d+(?:[.:]\d+){2,}": r"[\d.:]+",
    r"\bv\d+": r"v\d+",
    r"\.\.\.\n": r"(?:.*\n)*?",
}
"""What may be otherwise: folders, lengths of time, dates, times, addresses, versions of programs and of APIs."""


def pattern(shown: str) -> str:
    """A block of output as what has to come: offsets, epochs and words as they stand."""
    found, end = "", 0
    for one in re.finditer("|".join(f"({loose})" for loose in LOOSE), shown, re.MULTILINE):
        assert one.lastindex is not None
        found, end = found + re.escape(shown[end : one.start()]) + [*LOOSE.values()][one.lastindex - 1], one.end()
    return found + re.escape(shown[end:])


class Terminal:
    """A program that goes on, and what it has said."""

    def __init__(self, command: list[str], folder: Path, name: str) -> None:
        self._said = folder / f"{name}.terminal"
        self._read = 0
        with self._said.open("wb") as file:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT
            )

    def says(self, shown: str) -> None:
        wanted = re.compile(pattern(shown))
        with contextlib.suppress(AssertionError):
            wait_until(lambda: wanted.match(self._rest()) or self.process.poll() is not None, "the lines")
        found = wanted.match(self._rest())
        assert found, f"{self._rest()}\n--- is not\n{shown}"
        self._read += found.end()

    def _rest(self) -> str:
        return self._said.read_text()[self._read :]

    def enter(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.communicate()


class Walk:
    """One who follows the page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ports = {str(port): str(free_port()) for port in (9092, 9644, 8080)}
        self.terminals: dict[str, Terminal] = {}

    def close(self) -> None:
        for terminal in reversed(self.terminals.values()):
            terminal.close()

    def step(self, kind: str, place: str, text: str) -> None:
        text = self._at_our_ports(text)
        if kind == "python":
            (self._folder / place).write_text(text)
        elif kind == "text":
            self._look(place, text)
        elif place == "install":
            self._install(text)
        elif place:
            self._terminal(place, text)
        else:
            self._ask(text)

    def _terminal(self, name: str, text: str) -> None:
        first, _, rest = text.partition("\n")
        if first.startswith("$ "):
            self.terminals[name] = Terminal(self._command(first), self._folder, name)
        elif not first:
            self.terminals[name].enter()
        self.terminals[name].says(rest if not first or first.startswith("$ ") else text)

    def _ask(self, text: str) -> None:
        first, _, shown = text.partition("\n")
        done = self.run(first)
        assert re.fullmatch(pattern(shown), done.stdout), f"{done.stdout}{done.stderr}\n--- is not\n{shown}"

    def run(self, line: str) -> "subprocess.CompletedProcess[str]":
        """A command, as it stands on the page."""
        command = self._command(self._at_our_ports(line))
        return subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=120, check=False)

    def _at_our_ports(self, text: str) -> str:
        return re.sub(r"(?<=127\.0\.0\.1:)\d{4}\b", lambda one: self.ports.get(one[0], one[0]), text)

    def _command(self, line: str) -> list[str]:
        program, *rest = shlex.split(line.removeprefix("$ "))
        if rest[0] == "serve":
            rest += [f"127.0.0.1:{self.ports['8080']}", "--port", self.ports["9092"]]
        return PROGRAMS[program] + rest

    def _look(self, url: str, text: str) -> None:
        seen = " ".join(self.seen(re.sub(r"\d{4}(?=/)", lambda one: self.ports[one[0]], url)).split())
        for line in text.splitlines():
            assert re.search(pattern(line), seen), f"{seen}\n--- has no\n{line}"

    def seen(self, url: str) -> str:
        """The words of a page."""
        with urllib.request.urlopen(url, timeout=30) as page:
            return re.sub(r" ([,)])", r"\1", re.sub(r"<[^>]*>", " ", page.read().decode()))

    def _install(self, text: str) -> None:
        """Nothing is fetched: the extras exist, and whoever runs this has installed the rest."""
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = re.search(r"tallystick\[(.*?)\]", text)
        assert named and set(named[1].split(",")) <= set(extras)
