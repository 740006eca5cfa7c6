"""What the Python programs have in common: stories are read, steps taken one after the other, what was seen is printed.

A program has a class with a method for each step it knows (`do_produce`, ...), made anew for each story with the
address of its broker.
"""

import json
import operator
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

PATIENCE_S = 30.0
"""For anything that is waited for in a step."""


class NotOffered(Exception):
    """The client has no such thing, in a sentence."""


class Teller:
    """`at` says where the broker is; `close` gives up whatever the story left open."""

    def __init__(self, at: dict[str, str]) -> None:
        self.at = at
        self.members: dict[str, Member] = {}
        self.producers: dict[str, Any] = {}

    def close(self) -> None:
        for member in self.members.values():
            member.leave()

    # Steps that are alike for all.

    def do_join(self, *, member: str, **settings: Any) -> None:
        self.members[member] = self.member(**settings)

    def member(self, **settings: Any) -> "Member":
        """A consumer that polls."""
        raise NotOffered("no groups")

    def do_owned(self, *, members: dict[str, int]) -> dict[str, int]:
        def owned() -> dict[str, int]:
            return {name: len(self.members[name].owned) for name in members}

        found = wait_until(owned, lambda found: found == members)
        if found != members:
            raise TimeoutError(f"they own {found}")
        return found

    def do_taken(self, *, member: str) -> int:
        one = self.members[member]
        number, one.taken = one.taken, 0
        return number

    def do_seen(self, *, count: int) -> int:
        def seen() -> int:
            return len({value for member in self.members.values() for value in member.values})

        return wait_until(seen, lambda found: found >= count)

    def do_leave(self, *, member: str) -> None:
        self.members[member].leave()


class Member:
    """A consumer in a thread of its own; what it owns and has read."""

    def __init__(self) -> None:
        self.owned: set[int] = set()
        self.taken = 0
        self.values: set[bytes] = set()
        self.leaving = threading.Event()
        self.thread = threading.Thread(target=self.poll, daemon=True)

    def assigned(self, partitions: set[int]) -> None:
        self.owned = self.owned | partitions

    def revoked(self, partitions: set[int]) -> None:
        self.taken += len(partitions & self.owned)
        self.owned = self.owned - partitions

    def poll(self) -> None:
        """Until `leaving` is set; then close."""
        raise NotImplementedError

    def leave(self) -> None:
        self.leaving.set()
        self.thread.join(PATIENCE_S)


def wait_until(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    """What was seen last. Polls, because the other side is a process that sends no notice."""
    ends = time.monotonic() + PATIENCE_S
    while not enough(found := look()) and time.monotonic() < ends:
        time.sleep(0.01)
    return found


def written(text: Any) -> bytes | None:
    """A key or a value of the list as bytes."""
    if text is None:
        return None
    return (text["of"] * text["times"]).encode() if isinstance(text, dict) else str(text).encode()


def headers_of(record: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(one[0], one[1].encode() if len(one) > 1 else None) for one in record.get("headers", [])]


def shown(value: bytes | None) -> Any:
    """As the list writes it."""
    if value is None:
        return None
    text = value.decode()
    return {"of": text[0], "times": len(text)} if len(text) > 200 and len(set(text)) == 1 else text


def whole_record(key: bytes | None, value: bytes | None, headers: Any) -> dict[str, Any]:
    told = [[name] if content is None else [name, content.decode()] for name, content in headers or []]
    return {"key": shown(key), "value": shown(value), "headers": told}


def streamed(number: int) -> bytes:
    return b"%0100d" % number


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def tried(action: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """What a step gives, or None where it fails."""
    try:
        return action(**arguments)
    except NotOffered:
        raise
    except Exception:
        return None


def main(teller: Callable[[dict[str, str]], Teller]) -> None:
    with open(sys.argv[1]) as source:
        stories = json.load(source)
    for story in stories:
        print(json.dumps({"story": story["name"]} | tell(teller(story["at"]), story["steps"])), flush=True)


def tell(teller: Teller, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """What was seen at each step, up to the first that is refused unexpectedly."""
    observed: list[Any] = []
    try:
        for step in steps:
            arguments = {name: value for name, value in step.items() if name not in ("do", "gives", "eventually")}
            gives = step.get("gives")
            action = getattr(teller, f"do_{step['do']}", None)
            if action is None:
                raise NotOffered(f"no {step['do']}")
            try:
                if step.get("eventually"):
                    wait_until(partial(tried, action, arguments), partial(operator.eq, gives))
                observed.append(action(**arguments))
            except NotOffered:
                raise
            except Exception as error:
                observed.append({"error": said(error)})
                if not (isinstance(gives, dict) and "error" in gives):
                    break
    except NotOffered as reason:
        return {"not offered": str(reason)}
    finally:
        teller.close()
    return {"observed": observed}
