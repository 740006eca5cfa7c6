"""What the program that started a broker may do to it: the other end of `--control-fd`.

A line of JSON each way; `broker/control/commands.py` says what may be asked for.
"""

import json
import socket
from typing import Any

_PATIENCE_S = 60.0
_AT_ONCE = 1 << 16


class NotDone(Exception):
    """The broker refused, in a sentence; or it does not answer, or is gone."""


class BrokerControl:
    """One end of a pair of sockets; the broker ends, in order, when it is closed. Use it from one thread.

    Requests are numbered: an answer that comes after its request was given up is nobody's.
    """

    def __init__(self, end: socket.socket, *, patience_s: float = _PATIENCE_S) -> None:
        self._end = end
        self._end.settimeout(patience_s)
        self._read = bytearray()
        self._number = 0

    def ask(self, command: str, **fields: object) -> Any:
        """What the broker answers. Raises `NotDone`."""
        self._number += 1
        request = json.dumps({"do": command, "number": self._number, **fields})
        try:
            self._end.sendall(request.encode() + b"\n")
            answer = self._answer()
            while answer.get("number", self._number) != self._number:
                answer = self._answer()
        except TimeoutError:
            raise NotDone("the broker does not answer; is it frozen?") from None
        except OSError as problem:
            raise NotDone(f"the broker is gone: {problem}") from problem
        if "refused" in answer:
            raise NotDone(answer["refused"])
        return answer["is"]

    def _answer(self) -> dict[str, Any]:
        while b"\n" not in self._read:
            part = self._end.recv(_AT_ONCE)
            if not part:
                raise NotDone("the broker is gone")
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._end.close()
