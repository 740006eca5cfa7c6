"""`python -m tests.sink_model`: search the protocols and their flaws, and report what was found.

`--deep` adds the searches that take minutes, `--stories` the shortest way to each flaw's harm.
"""

import sys

from tests.sink_model.findings import DEEP, FLAWED, SHORT, search
from tests.sink_model.properties import PROPERTIES, SEQUENCES
from tests.sink_model.settings import Setting


def title_of(setting: Setting) -> str:
    """A setting in words."""
    batches = " | ".join(
        ", ".join(str(sum(len(rows) for rows in batch)) for batch in batches) for batches in setting.queries
    )
    faults = f"{setting.drivers} drivers, {setting.attempts} attempts given up, {setting.repeats} repeats, "
    faults += f"{setting.timeouts} timeouts"
    for count, what in (
        (setting.stops, "batches given up"),
        (setting.moves, "moves of the checkpoint"),
        (setting.restores, "older copies of it"),
    ):
        faults += f", {count} {what}" if count else ""
    faults += ", the first driver of an older build" if setting.is_upgrade else ""
    return f"{setting.mode.value}, {setting.rules.name}; rows per batch {batches}; {faults}"


def main(arguments: list[str]) -> int:
    """Returns 0 if all protocols hold and all flaws were noticed by the property that is named for them."""
    say = sys.stdout.write
    is_right = True
    say(f"Properties: {', '.join((*PROPERTIES, SEQUENCES))}\n\nThe protocol as it is\n")
    for setting in (*SHORT, *(DEEP if "--deep" in arguments else ())):
        outcome = search(setting)
        verdict = "all hold" if outcome.broken is None else f"BROKEN: {outcome.broken.name}: {outcome.broken.seen}"
        is_right &= outcome.broken is None
        say(f"  {outcome.states:>8} states {outcome.moves:>9} moves  {verdict}  ({title_of(setting)})\n")
        for line in outcome.story:
            say(f"             {line}\n")
        sys.stdout.flush()
    say("\nWith one thing wrong\n")
    for wrong in FLAWED:
        outcome = search(wrong.setting)
        found = "nothing, although it must be noticed" if outcome.broken is None else outcome.broken.name
        is_right &= found == wrong.noticed_by
        say(f"  {found:26} {wrong.setting.flaw.value} ({wrong.setting.mode.value}, {wrong.setting.rules.name})\n")
        if "--stories" in arguments and outcome.broken is not None:
            for line in (*outcome.story, f"so {outcome.broken.seen}"):
                say(f"             {line}\n")
    say(f"\n{'All as it must be.' if is_right else 'NOT as it must be.'}\n")
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
