"""What the program that started a broker may do to it: the other end of `--control-fd`.

A line of JSON each way; `broker/control/commands.py` says what may be asked for.
"""

import json
import socket
from typing import Any


class NotDone(Exception):
    """The broker refused, in a sentence; or it is gone."""


class BrokerControl:
    """One end of a pair of sockets; the broker ends, in order, when it is closed. Use it from one thread."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._answers = end.makefile("rb")

    def ask(self, command: str, **fields: object) -> Any:
        """What the broker answers. Raises `NotDone`."""
        try:
            self._end.sendall(json.dumps({"do": command, **fields}).encode() + b"\n")
            line = self._answers.readline()
        except OSError as problem:
            raise NotDone(f"the broker is gone: {problem}") from problem
        if not line:
            raise NotDone("the broker is gone")
        answer = json.loads(line)
        if "refused" in answer:
            raise NotDone(answer["refused"])
        return answer["is"]

    def close(self) -> None:
        self._answers.close()
        self._end.close()
