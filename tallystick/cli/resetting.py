"""`tallystick groups reset-offsets`: where a group is to go on. Without --execute it only says what it would do."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import click

from tallystick.administration import group_offsets
from tallystick.administration.group_offsets import Goal, Move
from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.tables import show
from tallystick.cli.written_places import existing, group_option, read_places, topic_option
from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.inspection.groups import committed
from tallystick.inspection.places import Place

_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


@click.command("reset-offsets")
@group_option
@topic_option
@click.option("--all-topics", is_flag=True, help="Every partition that the group has committed an offset of.")
@click.option("--to-earliest", is_flag=True, help="To the first record that is there.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option("--shift-by", type=int, help="By this many offsets, forward or (negative) back.")
@click.option(
    "--to-datetime", help="To the first record of then or later: 2026-03-01T12:00:00.000, UTC or with +02:00."
)
@click.option("--by-duration", help="To the first record that is younger than this: P1D, PT2H30M.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done. So it is without --execute, too.")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@connecting
def reset_offsets(
    *,
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    as_json: bool,
    bootstrap: str,
    command_config: Any,
    **goals: Any,
) -> None:
    """Set the committed offsets of a group that has no members. A dry run, unless --execute is given."""
    if bool(topics) == all_topics:
        raise click.UsageError("it needs either --topic or --all-topics")
    if dry_run and execute:
        raise click.UsageError("it is either --dry-run or --execute")
    goal, number = _goal(goals)
    named = read_places(topics)

    async def work(client: Client) -> list[Move]:
        places: list[Place] = sorted(await committed(client, group_id)) if all_topics else await existing(client, named)
        moves = await group_offsets.planned(client, group_id, places, goal, number)
        if execute and moves:
            await group_offsets.execute(client, group_id, moves)
        return moves

    moves = asked(bootstrap, command_config, work)
    if not moves:
        say_and_end(f"{group_id} has committed no offset")
    _show(group_id, moves, execute=execute, as_json=as_json)


def _show(group_id: str, moves: list[Move], *, execute: bool, as_json: bool) -> None:
    columns = ("Topic", "Partition", "CurrentOffset", "NewOffset", "Note")
    rows = [
        (*move.place, move.current, move.new, "an end of the log: it would be beyond" if move.is_cut else None)
        for move in moves
    ]
    if as_json:
        names = [name[0].lower() + name[1:] for name in columns]
        offsets = [dict(zip(names, row, strict=True)) for row in rows]
        click.echo(json.dumps({"group": group_id, "executed": execute, "offsets": offsets}, indent=2))
        return
    show(columns, rows)
    click.echo("The offsets are set." if execute else "A dry run: nothing was changed. With --execute it is done.")


def _goal(given: dict[str, Any]) -> tuple[Goal, int]:
    wanted = [name for name, value in given.items() if value is not None and value is not False]
    if len(wanted) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"it needs one of {names}")
    (name,) = wanted
    value = given[name]
    if name == "to_datetime":
        return Goal.TIME, time_ms(value)
    if name == "by_duration":
        return Goal.TIME, now_ms() - duration_ms(value)
    return Goal(f"--{name.replace('_', '-')}"), int(value) if value is not True else 0


def time_ms(written: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 date and time; UTC where it does not say. Raises `click.BadParameter`."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise click.BadParameter(f"{written!r} is no YYYY-MM-DDThh:mm:ss.sss", param_hint="--to-datetime") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_ms(written: str) -> int:
    """Of an ISO 8601 duration in days, hours, minutes and seconds. Raises `click.BadParameter`."""
    found = _DURATION.fullmatch(written)
    parts = {unit: value for unit, value in (found.groupdict() if found else {}).items() if value is not None}
    if not parts:
        raise click.BadParameter(f"{written!r} is no PnDTnHnMnS", param_hint="--by-duration")
    return round(sum(float(value) * _SECONDS[unit] for unit, value in parts.items()) * 1000)
