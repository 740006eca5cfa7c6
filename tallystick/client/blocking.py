"""The client for programs that do not use asyncio: every call runs a loop of its own until it is done."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from tallystick.client.client import Client
from tallystick.client.security import PLAINTEXT, Security

T = TypeVar("T")


class BlockingClient:
    """A `Client` and the loop it lives on. Use it from one thread, with `with`."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str | None = "tallystick",
        patience_s: float = 10.0,
        security: Security = PLAINTEXT,
    ) -> None:
        self._runner = asyncio.Runner()
        try:
            connecting = Client.connect(bootstrap, client_id=client_id, patience_s=patience_s, security=security)
            self.client = self.run(connecting)
        except BaseException:
            self._runner.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait until some work with `self.client` is done."""
        return self._runner.run(work)

    def ask(self, request: object, version: int | None = None) -> Any:
        """Ask any node and wait for the answer."""
        return self.run(self.client.ask(request, version))

    def close(self) -> None:
        self.run(self.client.close())
        self._runner.close()

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
