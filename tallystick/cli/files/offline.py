"""`tallystick dump` and `tallystick verify`: files of a data folder, looked at without a broker.

The looking is done by a process of its own, as the server is one (`tallystick.startup_guard`): what reads those files
is the broker's. Status 0 where everything is whole, 1 with a sentence on stderr where it could not be looked at, 2 for
wrong options, 3 where something is damaged, 130 when it was interrupted.
"""

import click

from tallystick.startup_guard import OFFLINE, become_guarded

as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")


@click.command()
@click.option("--records", is_flag=True, help="Each record of each batch, too, with its key and value.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
def dump(*, files: tuple[str, ...], as_json: bool, records: bool) -> None:
    """Show segments, indexes, snapshots and checkpoints in the words of kafka-dump-log; Kafka's own, too."""
    _become("dump", files, as_json=as_json, records=records)


@click.command()
@click.option("--records", is_flag=True, help="Open each batch and read each record, too.")
@as_json_option
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False))
def verify(*, data_dir: str, as_json: bool, records: bool) -> None:
    """Check every checksum, index, snapshot and coordinator's log of a data folder that no broker uses.

    Nothing is changed. What a crash has left and the next start mends by itself is told, and is no damage.
    """
    _become("verify", (data_dir,), as_json=as_json, records=records)


def _become(name: str, paths: tuple[str, ...], *, as_json: bool, records: bool) -> None:
    flags = [flag for flag, given in (("--json", as_json), ("--records", records)) if given]
    become_guarded(OFFLINE, [name, *flags, "--", *paths])
