"""How things are written: texts of others do nothing to a terminal or a shell, and look like nothing of ours."""

import shlex
from collections.abc import Sequence


def printable(text: str) -> str:
    """With escapes, as Python writes them, for what is no visible character."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def counted(count: int, one: str, many: str = "") -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def command_line(words: Sequence[str]) -> str:
    """To be copied into a shell; invisible characters as bash, ksh and zsh write them."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_in_dollar_quotes, word)) + "'"


def _in_dollar_quotes(one: str) -> str:
    if one in "\\'":
        return "\\" + one
    return one if one.isprintable() else "".join(f"\\{byte:03o}" for byte in one.encode())
