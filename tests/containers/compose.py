"""A compose file with a real engine. Debian's docker-compose knows no name at the head of a file: it is told apart. It
speaks to Docker's API.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.containers.conftest import Engine
from tests.harness.confluent import wait_until
from tests.harness.proxy import free_port

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300.0
NAME = re.compile(r"^name: .*\n", re.MULTILINE)


class Compose:
    """One file of docker/, as a project of its own; `replaced` is what is another here, such as a port. The health of
    `asked` decides who starts."""

    def __init__(
        self, engine: Engine, file: str, folder: Path, asked: Sequence[str], replaced: Mapping[str, str] | None = None
    ) -> None:
        self._engine, self._asked = engine, asked
        self.port = free_port()
        self._project = f"tried{self.port}"
        written = folder / "docker" / file
        written.parent.mkdir()
        text = NAME.sub("", (ROOT / "docker" / file).read_text())
        for before, after in (replaced or {}).items():
            assert before in text, before
            text = text.replace(before, after)
        written.write_text(text)
        self._command = ["docker-compose", "--project-name", self._project, "--file", str(written)]
        self._environment = {
            **os.environ,
            "DOCKER_HOST": engine.address,
            "TALLYSTICK_PORT": str(self.port),
            # An engine that copies images whole, as podman does here, deletes a gigabyte of files in its own time.
            "COMPOSE_HTTP_TIMEOUT": str(int(PATIENCE_S)),
        }

    def __call__(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def up(self) -> None:
        """All of it, in the order of the file; nothing is built."""
        with subprocess.Popen([*self._command, "up", "--detach", "--no-build"], env=self._environment) as process:
            try:
                wait_until(lambda: self._look(process), "all services", seconds=PATIENCE_S)
            finally:
                process.kill()
        assert process.returncode == 0, self("logs")

    def _look(self, process: "subprocess.Popen[bytes]") -> bool:
        """Nobody but an engine with timers asks for their health: podman is told to, where it has none."""
        if self._engine.podman is not None:
            for name in self._asked:
                if self.is_there(name):
                    self._engine.podman.look_after(f"{self._project}_{name}_1")
        return process.poll() is not None

    def is_there(self, name: str) -> bool:
        """Whether it is worth while to ask for its health: a look or two before would make it one that is not well."""
        return True

    def down(self) -> None:
        self("rm", "--force", "--stop", "-v")  # one that is started again and again does not hold up the network
        self("down", "--volumes", "--timeout", "20")
