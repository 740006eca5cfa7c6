"""Structured logs: one line per event, an event name in plain words and `key=value` fields behind it.

Rule 1. A line is for the operator: what happened, to which client, why. Never a secret, never a record.
Rule 2. What a client can provoke at will (a refused frame, a closed connection) costs one line, and no more than so
many in a while (`log_writer`). Writing never waits.
Rule 3. A traceback means a bug of ours; it is written once, with the event that led to it.
"""

import json
import logging
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from broker.process.log_writer import DescriptorStream, LogWriter

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FIELD_CHARACTERS = 1000
"""Of one field; a client chooses how long its names are."""
TRACE_CHARACTERS = 16_000
STANDARD_ERROR = 2


@dataclass(frozen=True, slots=True)
class Passing:
    """A field that is told as `text`, but does not make one line another: lines with the same `same` are repeats
    (`log_writer`). A client comes with a new port each time."""

    text: str
    same: str = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.same


class EventLog:
    """The log of one part of the broker. Fields are keyword arguments and keep their order."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"tallystick.{name}")

    def tells_debug(self) -> bool:
        """Whether it is worth putting together what `debug` would say."""
        return self._logger.isEnabledFor(logging.DEBUG)

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
        """An unexpected exception: with its traceback."""
        self._logger.error(event, extra={"fields": fields}, exc_info=error)


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
        line.update({name: _bounded(value) for name, value in getattr(record, "fields", {}).items()})
        if record.exc_info:
            line["traceback"] = _trace(record).strip()
        return json.dumps(line, default=str)


def set_up_logging(level: str = "info", *, as_json: bool = False) -> LogWriter:
    """Everything of ours goes to standard error; called once by the process's main, which finishes it in the end."""
    writer = LogWriter(DescriptorStream(STANDARD_ERROR))
    writer.setFormatter(JsonFormatter() if as_json else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [writer]
    root.setLevel(LEVELS[level])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.raiseExceptions = False
    return writer


def _part(record: logging.LogRecord) -> str:
    return record.name.removeprefix("tallystick.")


def _utc(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"


def _plain(value: Any) -> str:
    text = _short(str(value), FIELD_CHARACTERS)
    if text and not any(c.isspace() or c in '"=' or not c.isprintable() for c in text):
        return text
    return json.dumps(text)


def _bounded(value: Any) -> Any:
    return value if isinstance(value, int | float | None) else _short(str(value), FIELD_CHARACTERS)


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return "\n" + _short("".join(traceback.format_exception(record.exc_info[1])).rstrip(), TRACE_CHARACTERS)


def _short(text: str, most: int) -> str:
    """The beginning and the end, where it is too long."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"
