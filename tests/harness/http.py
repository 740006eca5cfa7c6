"""Asking over HTTP, as any program would: no more than the standard library."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def said(self) -> Any:
        return json.loads(self.text)


def ask(
    url: str, method: str = "GET", *, body: object = None, data: bytes | None = None, headers: Mapping[str, str] = {}
) -> Answer:
    """One request and its answer, whatever its status. `body` goes as JSON, `data` as it is."""
    sent = dict(headers)
    if body is not None:
        data = json.dumps(body).encode()
        sent.setdefault("Content-Type", "application/json")
    request = Request(url, data=data, headers=sent, method=method)
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return Answer(answer.status, answer.read().decode(), dict(answer.headers))
    except HTTPError as refused:
        return Answer(refused.code, refused.read().decode(), dict(refused.headers))


def connect(url: str, *, receive_buffer: int | None = None) -> socket.socket:
    """A connection on which nothing was said yet."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    made = socket.socket()
    made.settimeout(PATIENCE_S)
    if receive_buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.connect((host, int(port)))
    return made


def is_closed(connection: socket.socket) -> bool:
    """Waits until the other end has closed it or has said something."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
