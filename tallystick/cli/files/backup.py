"""`tallystick backup`: consistent, incremental copies of a broker's data folder, while it serves or stopped.

The work is done by a process of its own (`tallystick.startup_guard`), on the broker's machine. Status 0 when it is
done, 1 with a sentence on stderr when it is not, 2 for wrong options, 3 where a backup is damaged, 130 when it was
interrupted.
"""

import click

from tallystick.startup_guard import BACKUPS, become_guarded

json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
target_argument = click.argument("target", type=click.Path(exists=True, file_okay=False))


@click.group()
def backup() -> None:
    """Copy a broker's data folder, consistently and incrementally, while it serves."""


@backup.command()
@click.option("--http", "http_url", envvar="TALLYSTICK_HTTP", help="The HTTP side of the broker, which runs here.")
@click.option(
    "--http-token-file",
    envvar="TALLYSTICK_HTTP_TOKEN_FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="The token that it asks for.",
)
@click.option("--data-dir", type=click.Path(exists=True, file_okay=False), help="Instead: that of a stopped broker.")
@click.option("--whole", is_flag=True, help="Read everything, also what has the size and time it had.")
@json_option
@click.argument("target", type=click.Path(file_okay=False))
def create(
    *, target: str, http_url: str | None, http_token_file: str | None, data_dir: str | None, whole: bool, as_json: bool
) -> None:
    """Add a backup to the folder TARGET, which is made where it is missing. Only what is new is copied."""
    if data_dir is not None:
        http_url = None
    elif http_url is None:
        raise click.UsageError("where is the broker? --http http://HOST:PORT, or --data-dir DIR of one that is stopped")
    options = {"--http": http_url, "--http-token-file": http_token_file, "--data-dir": data_dir}
    _become("create", target, options, {"--whole": whole, "--json": as_json})


@backup.command(name="list")
@json_option
@target_argument
def list_them(*, target: str, as_json: bool) -> None:
    """Show the backups in TARGET, the oldest first, and what did not come to its end."""
    _become("list", target, {}, {"--json": as_json})


@backup.command()
@click.option("--backup", "backup_id", help="This one only.")
@json_option
@target_argument
def check(*, target: str, backup_id: str | None, as_json: bool) -> None:
    """Read all that the backups in TARGET consist of, and compare it with its checksums."""
    _become("check", target, {"--backup": backup_id}, {"--json": as_json})


@backup.command()
@click.option("--keep", type=click.IntRange(min=1), help="How many stay, of the newest.")
@click.option("--remove", multiple=True, help="The id of one that goes. May be repeated.")
@json_option
@target_argument
def prune(*, target: str, keep: int | None, remove: tuple[str, ...], as_json: bool) -> None:
    """Delete backups in TARGET, and what no other one needs. Those that stay are whole."""
    if keep is None and not remove:
        raise click.UsageError("which ones? --keep N, or --remove ID")
    arguments = [f"--remove={one}" for one in remove]
    _become("prune", target, {"--keep": None if keep is None else str(keep)}, {"--json": as_json}, arguments)


@click.command()
@click.option("--backup", "backup_id", help="The id of one; the newest if it is left out.")
@json_option
@target_argument
@click.argument("data_dir", type=click.Path(file_okay=False))
def restore(*, target: str, data_dir: str, backup_id: str | None, as_json: bool) -> None:
    """Make the data folder DATA_DIR, which is new or empty, of a backup in TARGET."""
    _become("restore", target, {"--backup": backup_id, "--data-dir": data_dir}, {"--json": as_json})


def _become(
    name: str, target: str, values: dict[str, str | None], flags: dict[str, bool], more: list[str] | None = None
) -> None:
    arguments = [f"{option}={value}" for option, value in values.items() if value is not None]
    arguments += [flag for flag, given in flags.items() if given]
    become_guarded(BACKUPS, [name, *arguments, *(more or []), "--", target])
