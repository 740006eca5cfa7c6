"""buildah with images and containers in a folder of its own, in a chroot instead of a container: it needs root and no
daemon, no cgroups, no user namespaces. This machine's own images are neither seen nor touched.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def why_not() -> str | None:
    """Why no image can be built here, in a sentence; None where one can."""
    if not sys.platform.startswith("linux") or shutil.which("buildah", path=SEARCHED) is None:
        return "buildah is not installed (apt-get install buildah debootstrap)"
    if os.geteuid() != 0:
        return "buildah in a chroot is for root only"
    return None


class Buildah:
    """Images and containers in one folder."""

    def __init__(self, folder: Path) -> None:
        self._options = ["--root", str(folder / "images"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]

    def command(self, *arguments: str) -> list[str]:
        return ["buildah", *self._options, *arguments]

    def __call__(self, *arguments: str) -> str:
        """What it says on standard output. Raises `CalledProcessError`."""
        done = subprocess.run(self.command(*arguments), check=True, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT)
        return done.stdout.strip()

    def succeeds(self, *arguments: str) -> bool:
        """Whether the exit status is 0; what it says is nobody's business."""
        return (
            subprocess.run(self.command(*arguments), capture_output=True, check=False, env=_ENVIRONMENT).returncode == 0
        )

    def build(self, name: str, dockerfile: Path, context: Path, mounts: Mapping[Path, str]) -> None:
        """`mounts` are there while it is built, and not in the image."""
        volumes = [part for here, there in mounts.items() for part in ("--volume", f"{here}:{there}:ro")]
        # The health check is of Docker's format, not of OCI's.
        ignored = ["--ignorefile", f"{dockerfile}.dockerignore", "--pull-never", "--format", "docker"]
        told = [
            "bud",
            "--isolation",
            "chroot",
            *ignored,
            *volumes,
            "--file",
            str(dockerfile),
            "--tag",
            name,
            str(context),
        ]
        subprocess.run(self.command(*told), check=True, env=_ENVIRONMENT)

    def configuration(self, image: str) -> dict[str, Any]:
        """What an engine is told of an image: its user, its volumes, its commands."""
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", image))["Docker"]["config"]
        return found

    def run(self, container: str, arguments: Sequence[str], *options: str) -> list[str]:
        """The command line that runs something in a container: on the network of this machine."""
        return self.command("run", "--isolation", "chroot", *options, container, "--", *arguments)


_ENVIRONMENT = {**os.environ, "PATH": SEARCHED}
