"""A running broker is asked over HTTP to hold on to its data folder of a moment, for as long as it is copied."""

import fcntl
import http.client
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from broker.backups.target import Refused
from broker.config.sources import read_token
from broker.upkeep.pinned_moments import LOCK, State

PATIENCE_S = 60.0
AGAIN_S = 0.05
Wait = Callable[[float], None]


class BrokerAsked:
    """Its HTTP side."""

    def __init__(self, url: str, token_file: str | None, wait: Wait) -> None:
        self._url = url
        self._token = None if token_file is None else read_token(token_file, where="--http-token-file")
        self._wait = wait

    @contextmanager
    def moment(self) -> Iterator[str]:
        """The folder of a moment, complete; it goes with the block. Raises `Refused`."""
        made = self._asked_until_begun()
        folder = str(made["folder"])
        try:
            descriptor = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            self._ask("DELETE", f"/v1/backups/{made['id']}")
            raise Refused(
                f"the broker keeps the moment in {folder}, which cannot be read here ({error.strerror}): the backup is "
                "made on the broker's machine, by its user"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            while made["state"] == State.LINKING.value:
                self._wait(AGAIN_S)
                made = self._ask("GET", f"/v1/backups/{made['id']}")
            if made["state"] == State.FAILED.value:
                raise Refused(str(made["reason"]))
            yield folder
        finally:
            os.close(descriptor)
            self._let_go(str(made["id"]))

    def _asked_until_begun(self) -> dict[str, Any]:
        """A broker that still opens its logs is given some time."""
        left = PATIENCE_S
        while True:
            try:
                return self._ask("POST", "/v1/backups")
            except NotYet:
                left -= 1.0
                if left < 0:
                    raise
                self._wait(1.0)

    def _let_go(self, moment_id: str) -> None:
        try:
            self._ask("DELETE", f"/v1/backups/{moment_id}")
        except Refused:
            return  # It was stopped meanwhile, and lets go at its next start.

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        parts = urlsplit(self._url if "//" in self._url else f"//{self._url}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        headers = {"Accept": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE_S)
            connection.request(method, parts.path.rstrip("/") + path, headers=headers)
            response = connection.getresponse()
            body, status = response.read(), response.status
            connection.close()
        except (OSError, ValueError, http.client.HTTPException) as problem:
            raise Refused(f"{self._url} cannot be asked over HTTP: {problem or type(problem).__name__}") from None
        return _answer(self._url, status, body)


class NotYet(Refused):
    """The broker is not ready."""


def _answer(url: str, status: int, body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if status == 200 and isinstance(said, dict):
        return said
    if isinstance(said, dict) and "error" in said:
        raise (NotYet if status == 503 else Refused)(f"{url} answers: {said['error']}")
    raise Refused(f"{url} is not the HTTP side of a Tallystick broker (it answers with status {status})")
