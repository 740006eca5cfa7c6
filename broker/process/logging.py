"""Structured logs: one line per event, an event name in plain words and `key=value` fields behind it.

Rule 1. A line is for the one who runs the broker: what happened, to whom, why. Never a secret, never a record.
Rule 2. What a client can provoke at will (a refused frame, a closed connection) costs one line.
Rule 3. A traceback means a bug of ours; it is written once, with the event that led to it. Each later exception of the
        same type from the same place costs one line that says how many there were.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


_bugs: dict[str, int] = {}
"""How often each kind of bug has come: as many entries as there are places in the program that can raise."""


class EventLog:
    """The log of one part of the broker. Fields are keyword arguments and keep their order."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"tallystick.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug(event, extra={"fields": fields})

    def info(self, event: str, **fields: Any) -> None:
        self._logger.info(event, extra={"fields": fields})

    def warning(self, event: str, **fields: Any) -> None:
        self._logger.warning(event, extra={"fields": fields})

    def error(self, event: str, **fields: Any) -> None:
        self._logger.error(event, extra={"fields": fields})

    def bug(self, event: str, error: BaseException, **fields: Any) -> None:
        """An exception nobody expected: with its traceback, once for each kind."""
        kind = _kind_of(error)
        _bugs[kind] = count = _bugs.get(kind, 0) + 1
        if count > 1:
            fields |= {"error": error, "place": kind, "count": count}
        self._logger.error(event, extra={"fields": fields, "repeated": count > 1}, exc_info=error)


class LineFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z INFO server listening address=127.0.0.1:9092`"""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        text = f"{_utc(record)} {record.levelname} {_part(record)} {record.getMessage()}"
        text += "".join(f" {name}={_plain(value)}" for name, value in fields.items())
        return text + _trace(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line, for collectors."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "part": _part(record),
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and not getattr(record, "repeated", False):
            line["traceback"] = _trace(record).strip()
        return json.dumps(line, default=str)


def set_up_logging(level: str = "info", *, as_json: bool = False, stream: TextIO | None = None) -> None:
    """Everything of ours goes to one stream (standard error); called once by the process's main."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.raiseExceptions = False


def _kind_of(error: BaseException) -> str:
    """The type of an exception and the line that raised it."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno}"
    return type(error).__name__ + where


def _part(record: logging.LogRecord) -> str:
    return record.name.removeprefix("tallystick.")


def _utc(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"


def _plain(value: Any) -> str:
    text = str(value)
    if text and not any(c.isspace() or c in '"=' or not c.isprintable() for c in text):
        return text
    return json.dumps(text)


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None or getattr(record, "repeated", False):
        return ""
    return "\n" + "".join(traceback.format_exception(record.exc_info[1])).rstrip()
