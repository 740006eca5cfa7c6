"""Levels of the parts of the log, by Kafka's names, while the broker runs: those of one process, until it ends."""

import logging

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Nothing of ours says anything at TRACE or at FATAL."""
ROOT = "root"
OURS = "tallystick"


def logger_names() -> list[str]:
    """The root, and every part that has a log by now."""
    parts = (name for name, found in logging.root.manager.loggerDict.items() if isinstance(found, logging.Logger))
    return [ROOT, *sorted(name for name in parts if name.partition(".")[0] == OURS)]


def level_of(name: str) -> str:
    """What is told of a part: its own level, or that of what it belongs to."""
    number = logging.getLogger(None if name == ROOT else name).getEffectiveLevel()
    return next((level for level, lowest in LEVELS.items() if number <= lowest), "FATAL")


def set_level(name: str, level: str | None) -> None:
    """`level` is one of `LEVELS`; None for that of what the part belongs to. The root always has one of its own."""
    assert level is not None or name != ROOT
    number = logging.NOTSET if level is None else LEVELS[level]
    logging.getLogger(None if name == ROOT else name).setLevel(number)
