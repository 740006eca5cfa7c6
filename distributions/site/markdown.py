"""What is shown alike by GitHub and by Python-Markdown is left as it is; what is not is put into words of the latter.

- A link leads to a place in the repository: here it leads to the page made of it.
- A fence may say more than its language (```` ```python writer.py ````): it is the title of the block.
- A comment in front of a table, and a bar that is escaped in code in a table, are none of Python-Markdown's.
"""

import re
from collections.abc import Callable

LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
FENCE = re.compile(r"^( *)(```+|~~~+)([^\n`]*)\n.*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
COMMENT_LINE = re.compile(r"^<!--.*-->[ \t]*$", re.MULTILINE)
TABLE_ROW = re.compile(r"^\|.*\|[ \t]*$", re.MULTILINE)
Leading = Callable[[str, str], tuple[str, str | None]]
"""From what a link shows, and where it leads, to both on the site; nowhere (None) where there is no page of it."""


def converted(text: str, leading: Leading) -> str:
    """A page of the repository as one of the site. What is fenced stays as it stands, but for its first line."""
    parts: list[str] = []
    position = 0
    for fence in FENCE.finditer(text):
        parts += [_outside(text[position : fence.start()], leading), _titled(fence)]
        position = fence.end()
    return "".join([*parts, _outside(text[position:], leading)])


def links(text: str) -> list[str]:
    """Where a page leads to, pictures included."""
    plain = _masked(FENCE.sub("", text))
    return [found[3] for found in LINK.finditer(plain)]


def _outside(text: str, leading: Leading) -> str:
    text = COMMENT_LINE.sub("", text)
    text = TABLE_ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)
    parts: list[str] = []
    position = 0
    for found in LINK.finditer(_masked(text)):
        shown, target = leading(text[found.start(2) : found.end(2)], found[3])
        written = shown if target is None else f"{found[1]}[{shown}]({target})"
        parts += [text[position : found.start()], written]
        position = found.end()
    return "".join([*parts, text[position:]])


def _masked(text: str) -> str:
    """Of the same length, with nothing in code that looks like a link."""
    return CODE.sub(lambda code: "x" * len(code[0]), text)


def _titled(fence: re.Match[str]) -> str:
    language, _, title = fence[3].strip().partition(" ")
    first = f'{fence[1]}{fence[2]}{language} title="{title.strip()}"' if title.strip() else fence[0].partition("\n")[0]
    return f"{first}\n{fence[0].partition(chr(10))[2]}"
