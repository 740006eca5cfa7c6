"""A page for `man` of each command, `tallystick-topics-create.1` and so on."""

from collections.abc import Iterator

from distributions.manual.described import Command, commands


def pages(version: str) -> Iterator[tuple[str, str]]:
    """(file name, text)."""
    found = commands()
    for one in found:
        yield f"{_name(one.path)}.1", page(one, version)


def page(one: Command, version: str) -> str:
    """One. The first sentence of its text stands beside its name."""
    first, *rest = one.text.split("\n\n")
    lines = [
        f'.TH "{_name(one.path).upper()}" "1" "" "tallystick {version}" "Tallystick"',
        ".SH NAME",
        f"{_escaped(_name(one.path))} \\- {_escaped(first.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_escaped(one.path)}",
        _escaped(one.usage.removeprefix(one.path).strip()),
    ]
    if rest:
        lines += [".SH DESCRIPTION"]
    for paragraph in rest:
        lines += [".PP", _escaped(paragraph)]
    for title, found in (("ARGUMENTS", one.arguments), ("OPTIONS", one.options)):
        if found:
            lines.append(f".SH {title}")
        for item in found:
            lines += [".TP", f".B {_escaped(item.names)}", _escaped(item.meaning) or "\\&"]
    if not one.below:
        lines += [".SH EXIT STATUS", _escaped(one.status)]
    others = [_name(path) for path in one.below] or ["tallystick"]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escaped(name)}\\fR(1)" for name in others)]
    return "\n".join(lines) + "\n"


def _name(path: str) -> str:
    return path.replace(" ", "-")


def _escaped(text: str) -> str:
    """As text, whatever it begins with: roff takes `-` for a hyphen, a line that begins with a dot for a request, and
    knows what is no ASCII by its number."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in escaped)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
