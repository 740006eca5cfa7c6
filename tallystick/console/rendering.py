"""Templates, and how values are written into them. Everything is escaped, whatever it is."""

from collections.abc import Mapping
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from tallystick.client.background import now_ms
from tallystick.durations import ago, in_words
from tallystick.written import command_line, counted

_THIN_SPACE = "\u202f"


def made_environment() -> Environment:
    """The templates of the console."""
    environment = Environment(
        loader=PackageLoader("tallystick.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "plain": plain,
        "time": time,
        "since": since,
        "duration": in_words,
        "command": command_line,
        "combine": combine,
        "counted": counted,
    }
    environment.globals["now_ms"] = now_ms
    return environment


def combine(query: Mapping[str, object], **more: object) -> dict[str, object]:
    """A query of an address, without what is empty."""
    return {name: value for name, value in (*query.items(), *more.items()) if value != ""}


def number(value: int | None) -> str:
    """With thin spaces between thousands."""
    return "–" if value is None else f"{value:,}".replace(",", _THIN_SPACE)


def plain(text: str) -> str:
    """What is no visible character is written as an escape; lines stay lines. Somebody else's text cannot turn the
    direction of what stands behind it."""
    return "".join(one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode() for one in text)


def time(at_ms: int, *, days: bool = True) -> str:
    """In UTC, to the millisecond, with the day or without; the number itself where no calendar has it."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}"[0 if days else len("2026-01-31 ") :]


def since(at_ms: int) -> str:
    """`12 s ago`."""
    return "–" if at_ms < 0 else ago(now_ms() - at_ms)


class Renderer:
    """Makes pages of templates."""

    def __init__(self) -> None:
        self._environment = made_environment()

    def page(self, template: str, context: Mapping[str, object]) -> str:
        return self._environment.get_template(template).render(context)
