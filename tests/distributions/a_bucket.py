"""The S3 server that a compose file or a pod has, as a process of this machine: its own command and variables, with
another folder and another port. Where versitygw is missing, moto is it, which believes everybody and takes any region.
"""

import os
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

from obstore.store import S3Store

from broker.shared.bucket import Place
from tests.harness.proxy import free_port
from tests.shared_store.objects.s3_server import Moto, versitygw

PATIENCE_S = 60.0
PORT = "7070"
FOLDER = "/data"


class ABucket:
    """`address` is where it is here. Started by the constructor; `close` it."""

    def __init__(self, folder: Path, command: Sequence[str], variables: Mapping[str, str], place: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._moto: Moto | None = None
        program = versitygw()
        if program is None:
            self._moto = Moto(Place(place).bucket)
            port = self._moto.port
        else:
            port = free_port()
            folder.mkdir()
            self._start(folder, command, variables, port, os.path.dirname(program))
        self.address = f"127.0.0.1:{port}"

    def _start(
        self, folder: Path, command: Sequence[str], variables: Mapping[str, str], port: int, programs: str
    ) -> None:
        """In an environment that has the variables and nothing else, as in its container."""
        assert variables["VGW_PORT"] == f":{PORT}"
        found = os.pathsep.join([programs, os.environ["PATH"]])
        self._process = subprocess.Popen(
            [part.replace(FOLDER, shlex.quote(str(folder))) for part in command],
            env={**variables, "PATH": found, "VGW_PORT": f"127.0.0.1:{port}"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        healthy = f"http://127.0.0.1:{port}{variables['VGW_HEALTH']}"
        deadline = time.monotonic() + PATIENCE_S
        while not _is_well(healthy):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise AssertionError(f"{healthy} is not well; the status is {self._process.returncode}")
            time.sleep(0.02)

    def close(self) -> None:
        if self._moto is not None:
            self._moto.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)


def what_lies_in(place: str, variables: Mapping[str, str]) -> bytes:
    """The bytes of all objects below it, for who has these variables."""
    with mock.patch.dict(os.environ, variables):
        where = Place(place)
        store = S3Store(where.bucket, prefix=where.folder, client_options={"allow_http": True})
    names = [one["path"] for page in store.list() for one in page]
    return b"".join(bytes(store.get(name).bytes()) for name in names)


def _is_well(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False
