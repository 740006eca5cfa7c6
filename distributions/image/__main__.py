"""Build an image: `python -m distributions.image FOLDER` (root, buildah; debootstrap where no registry answers), by
default that of the broker.

The base of docker/Dockerfile is pulled. Where that cannot be, Debian with its own Python is put into a folder and takes
the base's name here: the same Dockerfile is built, on the same release of Python.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from distributions.image.buildah import SEARCHED, Buildah, why_not

ROOT = Path(__file__).resolve().parents[2]
IMAGES = {"tallystick": "Dockerfile", "tallystick-spark-job": "Dockerfile.spark"}
"""Their names, and the files in docker/ that say what is in them."""
DEBIAN = "bookworm"
"""Its Python is 3.11, as that of the base."""
PACKAGES = "python3,python3-venv,ca-certificates,binutils"
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
TRUSTED = "/etc/ssl/trusted-while-building.pem"
NOT_HERE = 75
"""The exit status where it cannot be built (EX_TEMPFAIL)."""


def bases(dockerfile: str) -> list[str]:
    """The images that a Dockerfile begins with."""
    return [name for name in re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE) if name != "scratch"]


def bring(buildah: Buildah, base: str, mirror: str) -> str:
    """The base is there afterwards; where it is from."""
    full = f"docker.io/library/{base}"
    if buildah.succeeds("inspect", "--type", "image", full):
        return "is here already"
    if buildah.succeeds("pull", full):
        return "was pulled"
    container = buildah("from", "scratch")
    folder = Path(buildah("mount", container))
    made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, str(folder), mirror]
    subprocess.run(made, check=True, stdout=sys.stderr, env={**os.environ, "PATH": SEARCHED})
    (folder / "usr" / "local" / "bin" / "python").symlink_to("/usr/bin/python3")
    buildah("umount", container)
    buildah("commit", "--rm", "--quiet", container, full)
    return f"could not be pulled; Debian {DEBIAN} with its own Python takes its place"


def settings_of_pip(folder: Path) -> dict[Path, str]:
    """Files that make pip in there know what pip here knows of an index and whom to trust."""
    listed = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(listed, capture_output=True, text=True, check=False).stdout
    known = dict(re.findall(r"^(?:global|:env:)\.(index-url|extra-index-url|timeout)='(.*)'$", said, re.MULTILINE))
    mounts: dict[Path, str] = {}
    trusted = next((os.environ[name] for name in CERTIFICATES if Path(os.environ.get(name, "/-")).is_file()), None)
    if trusted is not None:
        known["cert"] = TRUSTED
        mounts[Path(trusted).resolve()] = TRUSTED
    written = folder / "pip.conf"
    written.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in known.items()))
    return {**mounts, written: "/etc/pip.conf"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="distributions.image", description="Build the image with buildah.")
    parser.add_argument("folder", type=Path, help="where images are kept")
    parser.add_argument("--image", choices=tuple(IMAGES), default="tallystick", help="which one")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="where debootstrap finds Debian")
    given = parser.parse_args(arguments)
    if (reason := why_not()) is not None:
        print(f"no image is built: {reason}")
        return NOT_HERE
    buildah = Buildah(given.folder.resolve())
    dockerfile = ROOT / "docker" / IMAGES[given.image]
    for base in bases(dockerfile.read_text()):
        print(f"{base} {bring(buildah, base, given.mirror)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        buildah.build(given.image, dockerfile, ROOT, settings_of_pip(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
