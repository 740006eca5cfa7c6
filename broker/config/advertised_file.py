"""Advertised addresses that are known only after the start: the port that an engine has given to a container, say.

Whoever knows them writes them into a file, as one line; what has no end of a line yet is still being written.
"""

import signal

from broker.config.sources import ConfigError
from broker.process.logging import EventLog

ADVERTISED_FILE = "tallystick.advertised.listeners.file"
LARGEST_BYTES = 65_536
AGAIN_AFTER_S = 0.02
ENDING = (signal.SIGTERM, signal.SIGINT)
_log = EventLog("main")


def wait_for_line(path: str) -> str | None:
    """The line in a file, once it is there; None where a signal ends the waiting. The signals are blocked: whoever
    starts a broker keeps them back. Raises `ConfigError` where nothing that is written there could be read."""
    is_told = False
    while (line := _line_of(path)) is None:
        if not is_told:
            _log.info("waiting for the addresses that clients are to be told", file=path)
            is_told = True
        if signal.sigtimedwait(ENDING, AGAIN_AFTER_S) is not None:
            return None
    return line


def _line_of(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as source:
            text = source.read(LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{ADVERTISED_FILE}: {path} cannot be read: {problem}.") from None
    line, end, _ = text.partition("\n")
    if end and not line.strip():
        raise ConfigError(f"{ADVERTISED_FILE}: {path} names no address.")
    if len(text) == LARGEST_BYTES:
        raise ConfigError(f"{ADVERTISED_FILE}: {path} is too long.")
    return line.strip() if end else None
