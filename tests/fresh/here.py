"""What this machine knows of the way to the world: where Debian's packages are, where Python's, whom to trust.

Nothing of it is written down here: it comes from apt's, pip's and the environment's own settings.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEBIAN = "http://deb.debian.org/debian"
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
TOOLS = ("debootstrap", "chroot", "unshare", "git")


@dataclass(frozen=True, slots=True)
class Here:
    """The settings of this machine, as far as a fresh one needs them."""

    mirror: str
    certificates: str | None
    """A file of certificates to trust beside those everybody does."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables for pip, and proxies."""


def why_not() -> str | None:
    """Why no fresh machine can be made here, in a sentence; None where one can."""
    if not sys.platform.startswith("linux"):
        return "only Linux has debootstrap and chroot"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=_search_path()) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (apt-get install debootstrap util-linux git)"
    if os.geteuid() != 0:
        return "debootstrap and chroot are for root only"
    return None


def settings_of_here(environment: Mapping[str, str] = os.environ) -> Here:
    """Query apt, pip and the environment."""
    pip = pip_settings(_output([sys.executable, "-m", "pip", "config", "list"]), environment)
    trusted = [pip.pop("PIP_CERT", None), *(environment.get(name) for name in CERTIFICATES)]
    certificates = next((one for one in trusted if one and Path(one).is_file()), None)
    proxies = {name: environment[name] for name in PROXIES if name in environment}
    targets = _output(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"])
    return Here(mirror_of(targets), certificates, {**pip, **proxies})


def mirror_of(targets: str) -> str:
    """The mirror that apt takes Debian from, of lines `origin uri`."""
    for line in targets.splitlines():
        origin, _, address = line.partition(" ")
        if origin == "Debian" and "security" not in address:
            return address.rstrip("/")
    return DEBIAN


def pip_settings(listed: str, environment: Mapping[str, str]) -> dict[str, str]:
    """pip's settings as variables: what its files say, and over that what the environment says. Folders of this
    machine are not there on another."""
    settings: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.partition(".")
        if section in ("global", "install"):
            settings["PIP_" + option.upper().replace("-", "_")] = value.strip("'\"")
    settings |= {name: value for name, value in environment.items() if name.startswith("PIP_")}
    return {
        name: value for name, value in settings.items() if name == "PIP_CERT" or not value.startswith(("/", "file:"))
    }


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def _search_path() -> str:
    """Administrators' tools are not on everybody's path."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
