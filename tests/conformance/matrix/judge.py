"""What a client saw, beside what the list says that it must see."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from tests.conformance.matrix.story import Step, Story, words

Mark = Literal["yes", "no", "absent"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One story with one client; `why` of what is not "yes"."""

    mark: Mark
    why: str = ""


def judge(story: Story, told: dict[str, Any]) -> Cell:
    """Of the line that a program printed."""
    if "not offered" in told:
        return Cell("absent", told["not offered"])
    for step, saw in zip(story.steps, told["observed"], strict=False):
        if not _matches(step, saw):
            return Cell("no", f"{step['do']}: {_short(saw)}")
    if len(told["observed"]) < len(story.steps):
        return Cell("no", f"only {len(told['observed'])} steps")
    return Cell("yes")


def _matches(step: Step, saw: Any) -> bool:
    refused = isinstance(saw, dict) and "error" in saw
    if "gives" not in step:
        return not refused
    wanted = step["gives"]
    if isinstance(wanted, dict) and "error" in wanted:
        return refused and any(_letters(word) in _letters(saw["error"]) for word in words()[wanted["error"]])
    if refused:
        return False
    if step["do"] in ("produce", "press"):
        return saw is None or _told(wanted, saw)
    return bool(_plain(saw) == wanted)


def _told(wanted: Any, saw: Any) -> bool:
    """Equal, but for what the client does not tell."""
    if isinstance(wanted, dict):
        return all(saw.get(name) in (value, None) for name, value in wanted.items())
    return len(wanted) == len(saw) and all(got in (value, None) for value, got in zip(wanted, saw, strict=True))


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _plain(saw: Any) -> Any:
    """As the list writes it: without what is null, and without headers where there are none."""
    if isinstance(saw, dict):
        return {name: _plain(value) for name, value in saw.items() if value is not None and value != []}
    return [_plain(one) for one in saw if one is not None] if isinstance(saw, list) else saw


def _short(saw: Any) -> str:
    text = saw["error"] if isinstance(saw, dict) and "error" in saw else repr(saw)
    return " ".join(str(text).split())[:300]
