"""JAAS lines as Kafka takes them in `sasl.jaas.config`: `Module required name="value" other="value";`
And files of them, as Java's `java.security.auth.login.config` names one: `Section { Module required ...; ... };`

Words are letters, digits and `_ - $ .`; a name or a value that holds anything else is written in quotes, with Java's
escapes. Comments are Java's. No error holds a value: they are passwords.
"""

import re
from dataclasses import dataclass, field

FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""(?P<skipped>\s+|//[^\r\n]*|/\*.*?\*/)"""
    r"""|(?P<word>[A-Za-z0-9_$.\-\u00a0-\uffff]+)"""
    r"""|"(?P<double>(?:[^"\\\r\n]|\\.)*)"|'(?P<single>(?:[^'\\\r\n]|\\.)*)'"""
    r"""|(?P<sign>[=;{}])""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class BadJaas(Exception):
    """A line that cannot be understood; the text is for who wrote it."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the class, its flag, and what stands behind it."""

    name: str
    flag: str
    options: dict[str, str] = field(repr=False)

    @property
    def line(self) -> str:
        """How it is written, every name and value in quotes."""
        said = "".join(f" {_quoted(name)}={_quoted(value)}" for name, value in self.options.items())
        return f"{_quoted(self.name)} {self.flag}{said};"


def read_jaas(text: str) -> LoginModule:
    """The one module of a line. Raises `BadJaas`."""
    tokens = _tokens(text)
    if not tokens:
        raise BadJaas("there is no login module in it")
    modules = []
    position = 0
    while position < len(tokens):
        module, position = _module(tokens, position)
        modules.append(module)
    if len(modules) != 1:
        raise BadJaas(f"there are {len(modules)} login modules in it, and there should be one")
    return modules[0]


def read_login_file(text: str) -> dict[str, list[LoginModule]]:
    """The modules of each section. Raises `BadJaas`."""
    tokens = _tokens(text)
    sections: dict[str, list[LoginModule]] = {}
    position = 0
    while position < len(tokens):
        name, is_sign = tokens[position]
        where = f"section {len(sections) + 1}"
        if is_sign or tokens[position + 1 : position + 2] != [("{", True)]:
            raise BadJaas(f"{where} does not begin with a name and {{")
        if name in sections:
            raise BadJaas(f"{where} has the name of an earlier one")
        position += 2
        modules = sections[name] = []
        while position < len(tokens) and tokens[position] != ("}", True):
            module, position = _module(tokens, position)
            modules.append(module)
        if tokens[position : position + 2] != [("}", True), (";", True)]:
            raise BadJaas(f"{where} does not end with }} and a semicolon")
        position += 2
    return sections


def _module(tokens: list[tuple[str, bool]], position: int) -> tuple[LoginModule, int]:
    name = tokens[position][0]
    flag = tokens[position + 1][0].lower() if position + 1 < len(tokens) else ""
    if flag not in FLAGS:
        raise BadJaas(f"behind the login module stands none of {', '.join(FLAGS)}")
    position += 2
    options: dict[str, str] = {}
    while position < len(tokens):
        key, is_sign = tokens[position]
        if is_sign and key == ";":
            return LoginModule(name, flag, options), position + 1
        equals, value = tokens[position + 1 : position + 2], tokens[position + 2 : position + 3]
        if is_sign or equals != [("=", True)] or not value or value[0][1]:
            raise BadJaas(f"option {len(options) + 1} of the login module is not of the form name=value")
        options[key] = value[0][0]
        position += 3
    raise BadJaas("it does not end with a semicolon")


def _tokens(text: str) -> list[tuple[str, bool]]:
    """(text, whether it is a sign) of each."""
    found: list[tuple[str, bool]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadJaas(f"character {position + 1} cannot stand there; a name or a value that holds it needs quotes")
        position = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            found.append((_ESCAPE.sub(_escaped, match.group(kind)), False))
        elif kind != "skipped":
            found.append((match.group(), kind == "sign"))
    return found


def _quoted(text: str) -> str:
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, written)
    return f'"{text}"'


def _escaped(match: "re.Match[str]") -> str:
    what = match.group(1)
    if what[0] in "01234567":
        return chr(int(what, 8))
    return _LETTERS.get(what, what)
