"""A Debian in a folder, with what the README requires and nothing else, and an ordinary user in it.

Rule. What runs in there has mounts and processes of its own (`unshare`): when its first process ends, be it killed, the
kernel unmounts and kills what is left. This machine never sees a mount.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tests.fresh.here import Here

PACKAGES = ("python3", "python3-venv", "make")
"""What the README says."""
USER = "newcomer"
HOME = "/srv/newcomer"
PROJECT = f"{HOME}/tallystick"
TRUSTED = "/etc/ssl/certs/of-this-machine.pem"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENTER = """
mount -t proc proc "$1/proc"
if [ -d "$1/dev/shm" ]; then mount -t tmpfs tmpfs "$1/dev/shm"; fi
root=$1; shift
exec chroot "$root" "$@"
"""


class Debian:
    """One release in one folder."""

    def __init__(self, release: str, folder: Path, here: Here, log: BinaryIO) -> None:
        self.release = release
        self._folder = folder
        self._here = here
        self._log = log

    def make(self) -> bool:
        """Whether it could be made."""
        packages = f"--include={','.join(PACKAGES)}"
        made = ["debootstrap", "--variant=minbase", packages, self.release, str(self._folder), self._here.mirror]
        if self._run(made, {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{PATH}"}) != 0:
            return False
        for name in ("resolv.conf", "hosts"):
            if (known := Path("/etc", name)).exists():
                shutil.copy(known.resolve(), self._folder / "etc" / name)
        if self._here.certificates is not None:
            (self._folder / TRUSTED.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self._here.certificates, self._folder / TRUSTED.lstrip("/"))
        return self._enter(["useradd", "--create-home", "--home-dir", HOME, USER]) == 0

    def copy(self, project: Path) -> None:
        """The project as git knows it here, changes that are not committed included: no .venv, no .jars."""
        listed = ["git", "-C", str(project), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
        target = self._folder / PROJECT.lstrip("/")
        for name in filter(None, names):
            if (project / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(project / name, target / name)
        self._enter(["chown", "--recursive", f"{USER}:", PROJECT])

    def passes(self, command: str) -> bool:
        """Type a command in the project's folder, as an ordinary user; whether its exit status is 0."""
        variables = {"HOME": HOME, "USER": USER, "LANG": "C.UTF-8", **self._here.environment}
        if self._here.certificates is not None:
            variables |= {"PIP_CERT": TRUSTED, "SSL_CERT_FILE": TRUSTED}
        typed = f"cd {PROJECT} && {command}"
        return self._enter(["runuser", "-u", USER, "--", "sh", "-c", typed], variables) == 0

    def versions(self) -> str:
        """What Python it has, and what Java."""
        query = "python3 --version; command -v java || echo no Java"
        command = ["chroot", str(self._folder), "sh", "-c", query]
        found = subprocess.run(command, env={"PATH": PATH}, capture_output=True, text=True, check=True)
        return ", ".join(found.stdout.split("\n")).strip(", ")

    def _enter(self, command: Sequence[str], variables: dict[str, str] | None = None) -> int:
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--"]
        entering = [*inside, "sh", "-e", "-c", _ENTER, "enter", str(self._folder), *command]
        return self._run(entering, {"PATH": PATH, **(variables or {})})

    def _run(self, command: Sequence[str], environment: dict[str, str]) -> int:
        self._log.flush()
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, check=False
        )
        return done.returncode
