"""`tallystick explain`: why something stands still, and what ends it. Its commands are in `explaining`.

Status 0 where nothing stands still, 3 where something does, 1 with a sentence on stderr where nobody could be asked, 2
for wrong options.
"""

import click

from tallystick.cli.explaining.fenced import fenced
from tallystick.cli.explaining.group import group
from tallystick.cli.explaining.lag import lag
from tallystick.cli.explaining.stuck import stuck


@click.group()
def explain() -> None:
    """Say why something stands still, on any Kafka 3.0 or newer. The status is 3 where something does."""


for command in (stuck, fenced, group, lag):
    explain.add_command(command)
