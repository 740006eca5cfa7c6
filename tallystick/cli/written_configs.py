"""Configs as they are written on a command line, `name=value,name=[value,value]`, with the rules of kafka-configs."""

import click


def added(written: str) -> dict[str, str]:
    """Of `--add-config`. Brackets keep the commas of a value together, and are no part of it."""
    found = {}
    for part in _parts(written):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or "=" in _without_brackets(value):
            raise click.BadParameter(f"{part!r} is not name=value", param_hint="--add-config")
        found[name.strip()] = value.replace("[", "").replace("]", "").strip()
    return found


def deleted(written: str) -> list[str]:
    """Of `--delete-config`: names."""
    return [part.strip() for part in written.split(",") if part.strip()]


def pairs(written: tuple[str, ...]) -> dict[str, str]:
    """Of `--config`, given once for each: a value is what stands behind the first `=`."""
    found = {}
    for part in written:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{part!r} is not name=value", param_hint="--config")
        found[name.strip()] = value.strip()
    return found


def _parts(written: str) -> list[str]:
    parts, is_inside = [""], False
    for letter in written:
        is_inside = letter == "[" or (is_inside and letter != "]")
        if letter == "," and not is_inside:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _without_brackets(value: str) -> str:
    return value.partition("[")[0]
