"""The page of all commands, for `docs/`."""

from distributions.manual.described import Command, commands

HEAD = """# Commands

Every command with its options, made of the commands themselves (`make docs`). `tallystick COMMAND --help` says the
same; pages for `man` are made by `make man`, completion for a shell by `tallystick completion bash|zsh|fish`. Commands
that ask a cluster take `--bootstrap-server`, work against any Kafka, and take the file of Kafka's own tools (TLS, SASL)
as `--command-config`. With `--json` they write JSON on standard output. What they are for stands in
[operations.md](operations.md#commands).

## Statuses

| status | means |
|---|---|
| 0 | done, or shown |
| 1 | not done; a sentence on standard error says why |
| 2 | wrong options; nothing was done |
| 3 | looked at, and something is found that should not be: `explain`, `audit`, `dump`, `verify`, `backup`, `restore` |
| 130 | interrupted (Ctrl-C) |

What a command means by them stands below it.
"""


def page() -> str:
    """All of it."""
    return HEAD + "".join(map(_section, commands()))


def _section(one: Command) -> str:
    lines = [
        f"\n## `{one.path}`" if one.path.count(" ") < 2 else f"\n### `{one.path}`",
        "",
        f"    {one.usage}",
        "",
        one.text,
    ]
    for title, found in (("argument", one.arguments), ("option", one.options)):
        if found and not (title == "option" and len(found) == 1):
            lines += [
                "",
                f"| {title} | |",
                "|---|---|",
                *(f"| {_code(item.names)} | {_cell(item.meaning)} |" for item in found),
            ]
    if one.below:
        lines += ["", "Commands below it: " + ", ".join(f"`{path}`" for path in one.below) + "."]
    else:
        lines += ["", f"Status: {_cell(one.status)}"]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
