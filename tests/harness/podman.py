"""Docker's API without Docker: Debian's podman as root, with the images that `make image` has built. Images and
containers of this machine's own are neither seen nor touched; bridges and rules of netavark are there meanwhile.

Rule. The service has mounts of its own (`unshare`), in which there are no control groups but empty ones of the second
version: containers are not limited, and no daemon of this machine is asked. The networks of its containers are such
mounts, too, so that everything else that is done to them is done in there (`nsenter`).
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE_S = 60.0
ENTER = """
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
exec "$@"
"""
SETTINGS = """
[containers]
cgroups = "disabled"
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
log_driver = "k8s-file"
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
FILES, PROCESSES = 65_536, 4_096
TOOLS = ("podman", "crun", "curl", "nsenter", "unshare")


def why_not() -> str | None:
    """Why no container can run here, in a sentence; None where one can."""
    if not sys.platform.startswith("linux"):
        return "podman runs on Linux only"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (apt-get install podman)"
    if os.geteuid() != 0:
        return "containers of podman with addresses of their own are for root only"
    return None


class Podman:
    """Not started by the constructor. `folder` is that of `make image`."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder = folder.resolve()
        # The path of a socket has 107 bytes at most.
        self._short = Path(tempfile.mkdtemp(prefix="podman-"))
        self._log = scratch / "podman.log"
        settings = scratch / "containers.conf"
        files = min(FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        settings.write_text(SETTINGS.format(files=files, processes=PROCESSES))
        # Without systemd nobody would run the health checks: they are run when they are asked for.
        self._environment = {**os.environ, "CONTAINERS_CONF": str(settings), "DISABLE_HC_SYSTEMD": "true"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What DOCKER_HOST is to be."""
        return f"unix://{self._short / 'api'}"

    def command(self, *arguments: str) -> list[str]:
        """podman, beside the service if that runs."""
        stores = ["--root", str(self._folder / "images"), "--runroot", str(self._folder / "run")]
        podman = ["podman", *stores, "--storage-driver", "vfs", *arguments]
        if self._process is None:
            return ["unshare", "--mount", "sh", "-euc", ENTER, "sh", *podman]
        return ["nsenter", "--mount", "--target", str(self._process.pid), *podman]

    def __call__(self, *arguments: str) -> str:
        """What it says on standard output. Raises `CalledProcessError`."""
        done = subprocess.run(
            self.command(*arguments), check=True, stdout=subprocess.PIPE, text=True, env=self._environment
        )
        return done.stdout.strip()

    def look_after(self, container: str) -> None:
        """Run its health check once, as systemd would do, where there is one. The engine notes what came of it."""
        command = self.command("healthcheck", "run", container)
        subprocess.run(command, capture_output=True, check=False, env=self._environment)

    def start(self) -> None:
        service = self.command("system", "service", "--time", "0", self.address)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(service, env=self._environment, stdout=log, stderr=log)
        asked = ["curl", "--silent", "--fail", "--unix-socket", str(self._short / "api"), "http://engine/_ping"]
        deadline = time.monotonic() + PATIENCE_S
        while subprocess.run(asked, capture_output=True, check=False).returncode != 0:
            assert self._process.poll() is None and time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def close(self) -> None:
        """Removes the containers that tests have left, and ends the service."""
        if self._process is not None and self._process.poll() is None:
            if left := self("ps", "--all", "--quiet").split():
                self("rm", "--force", "--time", "0", *left)
            self._process.terminate()
            self._process.wait(PATIENCE_S)
        shutil.rmtree(self._short, ignore_errors=True)
