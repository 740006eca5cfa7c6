"""The console beside a broker: a process of its own, so that no page takes a turn of the loop.

It is a client of this broker, through the first listener with SASL, otherwise the first of all: whoever looks at a page
has logged in where the broker wants that. It ends with the broker, however that one ends: its standard input is a pipe
of which the broker holds the other end.
"""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from importlib.util import find_spec

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.config.listeners import BadListener, Endpoint, parse_address, reachable
from broker.process.logging import EventLog
from tallystick.startup_guard import guarded_command

ADDRESS, CLIENT_SETTINGS = "tallystick.console", "tallystick.console.config"
_NEEDED = ("starlette", "uvicorn", "jinja2")
_LAST_WORDS_S = 5.0
_log = EventLog("console")


class ConsoleProcess:
    """Not started by the constructor. Raises `ConfigError` for a console that is not to be started like this."""

    def __init__(self, config: BrokerConfig) -> None:
        for name in _NEEDED:
            if find_spec(name) is None:
                raise ConfigError(f"{ADDRESS} needs {name}: pip install 'tallystick[console]'.")
        try:
            self._page = parse_address(config.get_str(ADDRESS), "CONSOLE")
        except BadListener as error:
            raise ConfigError(f"{ADDRESS}: {error}") from error
        self._listener = _listener(config)
        self._protocol = config.security_protocol(self._listener).value
        if not self._protocol.startswith("SASL") and not self._page.is_loopback:
            raise ConfigError(
                f"{ADDRESS}: {self._page.host} is reached from other machines, and no listener asks who somebody is "
                "(SASL)."
            )
        self._settings = config.get_str(CLIENT_SETTINGS)
        self._http_token_file = config.get_str("tallystick.http.token.file")
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, bound: Sequence[Endpoint], ready_file: str | None, http_url: str | None) -> None:
        """When the broker serves. It says itself where it listens; a ready file of its own lies beside the broker's."""
        (where,) = (str(reachable(one)) for one in bound if one.listener == self._listener)
        words = ["--bootstrap-server", where, "--host", self._page.host, "--port", str(self._page.port)]
        words += ["--security-protocol", self._protocol, "--end-with-stdin"]
        if self._settings:
            words += ["--command-config", os.path.abspath(self._settings)]
        if http_url is not None:
            words += ["--http", http_url]
            if self._http_token_file:
                words += ["--http-token-file", os.path.abspath(self._http_token_file)]
        if ready_file is not None:
            words += ["--ready-file", os.path.abspath(ready_file + ".console")]
        self._process = await asyncio.create_subprocess_exec(
            *guarded_command("console", words),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the broker, which then ends it
        )
        self._watching = asyncio.create_task(self._watch(self._process))

    @staticmethod
    async def _watch(process: asyncio.subprocess.Process) -> None:
        _log.warning("the console has ended, the broker goes on without it", status=await process.wait())

    async def stop(self) -> None:
        """Let it end; one that does not is killed."""
        if self._process is None or self._watching is None:
            return
        self._watching.cancel()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _LAST_WORDS_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def console_of(config: BrokerConfig) -> ConsoleProcess | None:
    """None where none is asked for. Raises `ConfigError`."""
    return ConsoleProcess(config) if config.get_str(ADDRESS).strip() else None


def _listener(config: BrokerConfig) -> str:
    names = [one.listener for one in config.listeners]
    asking = [name for name in names if config.security_protocol(name).value.startswith("SASL")]
    return (asking or names)[0]
