"""A container of the image, as buildah runs it; or with a root that is read-only, without any capability, as Kubernetes
would have it, made of mounts of a process's own: they are gone when it ends.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from distributions.image.buildah import Buildah
from tests.harness.proxy import free_port

IMAGE = "localhost/tallystick"
VOLUME = "/var/lib/tallystick/data"
USER = 10001
PATIENCE_S = 60.0
_READ_ONLY = """
mount --bind "$1" "$1" && mount --bind "$2" "$1$3" && mount -o remount,ro,bind "$1"
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && cd "$1" && shift 3
exec "$@"
"""


class Container:
    """One container, not running yet. `volume` is the folder of this machine that is its volume."""

    def __init__(self, buildah: Buildah, volume: Path, settings: Mapping[str, str]) -> None:
        self.buildah = buildah
        self.name = buildah("from", "--pull-never", IMAGE)
        self.root = Path(buildah("mount", self.name))
        self.configuration: dict[str, Any] = buildah.configuration(IMAGE)
        self.volume = volume
        port = free_port()
        listening = f"PLAINTEXT://127.0.0.1:{port}"
        self.bootstrap = f"127.0.0.1:{port}"
        self.settings = {"KAFKA_LISTENERS": listening, "KAFKA_ADVERTISED_LISTENERS": listening, **settings}

    def remove(self) -> None:
        self.buildah("umount", self.name)
        self.buildah("rm", self.name)

    def check_health(self) -> int:
        """The exit status of the image's own command."""
        command = self.configuration["Healthcheck"]["Test"]
        assert command[0] == "CMD"
        return subprocess.run(self._command(command[1:]), capture_output=True, check=False).returncode

    @contextmanager
    def running(self, *, read_only: bool = False) -> Iterator["Running"]:
        """What the image starts by itself, ready to serve; it is ended afterwards if it was not."""
        started = [*self.configuration["Entrypoint"], *self.configuration["Cmd"]]
        command = self._read_only(started) if read_only else self._command(started)
        with tempfile.NamedTemporaryFile() as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            running = Running(process)
            try:
                while self.check_health() != 0:
                    assert process.poll() is None, Path(log.name).read_text()
                yield running
            finally:
                if process.poll() is None:
                    for one in running.processes():
                        one.kill()
                    process.wait(PATIENCE_S)

    def _command(self, arguments: list[str]) -> list[str]:
        variables = [part for name, value in self.settings.items() for part in ("--env", f"{name}={value}")]
        return self.buildah.run(self.name, arguments, *variables, "--volume", f"{self.volume}:{VOLUME}")

    def _read_only(self, arguments: list[str]) -> list[str]:
        variables = [*self.configuration["Env"], *(f"{name}={value}" for name, value in self.settings.items())]
        path = next(one.removeprefix("PATH=") for one in variables if one.startswith("PATH="))
        program = f"{path}/{arguments[0]}"
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", "sh", "-euc", _READ_ONLY, "sh"]
        # setpriv takes everything away but the right to change the root and the user; chroot then gives these up.
        bare = ["setpriv", "--bounding-set=-all,+sys_chroot,+setuid,+setgid", "--no-new-privs"]
        inside = [*bare, "chroot", f"--userspec={USER}:{USER}", str(self.root), program, *arguments[1:]]
        return [*enter, str(self.root), str(self.volume), VOLUME, "env", "-i", *variables, *_absolute(inside)]


def _absolute(command: list[str]) -> list[str]:
    """The variables are those of the image: its PATH finds nothing on this machine."""
    found = {name: shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") or name for name in ("setpriv", "chroot")}
    return [found.get(part, part) for part in command]


class Running:
    """The processes of a container that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self._process.pid).children(recursive=True)

    def broker(self) -> psutil.Process:
        """The one that serves."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = [one for one in self.processes() if "serve" in one.cmdline() and one.uids().real == USER]
            if found:
                return found[-1]
        sys.exit("no process of the image's user serves")

    def stop(self) -> int:
        """SIGTERM to the first process of the container, as `docker stop` has it; the exit status of the container."""
        self.broker().terminate()
        return self._process.wait(PATIENCE_S)
