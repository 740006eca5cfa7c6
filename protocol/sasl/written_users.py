"""Users of SCRAM as Kafka's tools write them: `SCRAM-SHA-256=[name=alice,iterations=8192,password="a, b"]`.

Several stand behind each other, with spaces, commas or semicolons between them. A value in quotes may hold anything but
a quote. No error holds a value.
"""

import re

from protocol.sasl.scram import SCRAM_BY_LABEL, ScramMechanism

_VALUE = r'(?:"[^"]*"|[^",\]]*)'
_ENTRY = re.compile(
    rf"\s*(SCRAM-SHA-(?:256|512))\s*=\s*\[((?:[^=,\]]+={_VALUE}\s*(?:,(?!\])|(?=\])))*)\]\s*[,;]?",
)
_PAIR = re.compile(rf"\s*([^=,\]]+?)\s*=\s*({_VALUE})\s*(?:,|$)")


class BadUser(Exception):
    """An entry that cannot be read, by its number."""


def read_users(text: str) -> list[tuple[ScramMechanism, dict[str, str]]]:
    """What is said of each. Raises `BadUser`."""
    found: list[tuple[ScramMechanism, dict[str, str]]] = []
    position = 0
    while text[position:].strip():
        match = _ENTRY.match(text, position)
        if match is None:
            raise BadUser(f"entry {len(found) + 1} is not of the form SCRAM-SHA-256=[name=value,...]")
        said = {name: value.strip().removeprefix('"').removesuffix('"') for name, value in _PAIR.findall(match[2])}
        found.append((SCRAM_BY_LABEL[match[1]], said))
        position = match.end()
    return found
