"""What a command ends with that explains: 0 where nothing stands still, 1 with a sentence on stderr where nobody could
be asked, or a partition is offline, 2 for wrong options.
"""

import sys
from typing import NoReturn

from tallystick.cli.tables import say
from tallystick.inspection.places import Failed

STANDS_STILL = 3
"""Something does."""


def end(*, stands_still: bool, failed: Failed) -> NoReturn:
    """Name on stderr the partitions that nothing is known of, and end."""
    for _, error in sorted(failed.items()):
        say(f"tallystick: {error}", err=True)
    sys.exit(STANDS_STILL if stands_still else 1 if failed else 0)
