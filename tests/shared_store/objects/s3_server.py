"""Servers that speak as S3 does: moto, a fake in a thread of this process; versitygw, which checks signatures and
keeps files in a temporary folder; and any other that is there already, where `TALLYSTICK_TEST_S3` names its port on
loopback. That one has a bucket `bucket`, and knows the key and the secret that are here.
"""

import http.client
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from tests.harness.proxy import free_port

PATIENCE_S = 60.0
BUCKET = "bucket"
KEY, SECRET = "tallystick", "geheim-genug"
ANOTHER = "TALLYSTICK_TEST_S3"
SERVERS = ("moto", "versitygw", *(("another",) if ANOTHER in os.environ else ()))


def why_not(kind: str) -> str | None:
    """Why no such server can run here, in a sentence; None where one can."""
    if kind == "versitygw" and versitygw() is None:
        return "there is no versitygw (go install github.com/versity/versitygw/cmd/versitygw@latest)"
    return None


def versitygw() -> str | None:
    """The program, where there is one."""
    places = os.pathsep.join([os.environ.get("PATH", ""), str(Path.home() / "go" / "bin")])
    return shutil.which("versitygw", path=places)


class S3Server(Protocol):
    """One server, with one bucket; `close` it."""

    port: int

    def close(self) -> None: ...


def started(kind: str) -> S3Server:
    return {"moto": Moto, "versitygw": Versitygw, "another": Another}[kind]()


def environment(port: int, *, secret: str = SECRET, host: str = "127.0.0.1") -> dict[str, str]:
    """What a program is told of a server."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }


class Moto:
    """It believes everybody."""

    def __init__(self, bucket: str = BUCKET) -> None:
        from moto.server import ThreadedMotoServer  # type: ignore[import-untyped,unused-ignore]

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server: Any = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.port: int = self._server.get_host_and_port()[1]
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        asked.request("PUT", f"/{bucket}")
        assert asked.getresponse().status == 200
        asked.close()

    def close(self) -> None:
        self._server.stop()


class Versitygw:
    """A process of its own, which may be killed, and started again over the same files."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self._folder = Path(tempfile.mkdtemp(prefix="tallystick-s3-"))
        (self._folder / BUCKET).mkdir()
        self.port = free_port()
        self.start()

    def start(self) -> None:
        program = versitygw()
        assert program is not None
        self._process = subprocess.Popen(
            [program, "--port", f"{self.host}:{self.port}", "posix", str(self._folder)],
            env=os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(self.host, self.port):
            assert self._process.poll() is None and time.monotonic() < deadline, "versitygw does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def pause(self) -> None:
        """Who is connected stays so, and gets no answer."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class Another:
    """Somebody else's, who stops it."""

    def __init__(self) -> None:
        self.port = int(os.environ[ANOTHER])

    def close(self) -> None:
        pass


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENCE_S).close()
    except OSError:
        return False
    return True


class Looking:
    """Somebody who looks at the bucket, and may take from it what he likes."""

    def __init__(self, port: int, folder: str, *, host: str = "127.0.0.1") -> None:
        from obstore.store import S3Store

        with mock.patch.dict(os.environ, environment(port, host=host)):
            self._store = S3Store(BUCKET, prefix=folder, client_options={"allow_http": True})

    def names(self) -> list[str]:
        """Of all objects, without the files that say whose a folder is."""
        found = (one["path"] for page in self._store.list() for one in page)
        return sorted(name for name in found if not name.endswith(("/cluster", "/start")))

    def put(self, name: str, data: bytes) -> None:
        self._store.put(name, data)

    def delete(self, name: str) -> None:
        self._store.delete(name)

    def bytes_of(self, name: str) -> bytes:
        return bytes(self._store.get(name).bytes())
