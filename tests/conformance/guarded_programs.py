"""A program in another language that does a job (`tests.harness.guarded_place`): run, and what it has to say."""

import subprocess

from tests.harness.guarded_place import INVOICES, GuardedPlace, Job

DONE = [
    "produced",
    "consumed in a group",
    "committed",
    "aborted",
    "read what was committed",
    "refused what is forbidden",
]
SECONDS = 300
"""Its own patience is less; against a hang."""


def do_job(command: list[str], place: GuardedPlace, job: Job) -> None:
    """Everything of it, and what is in the log afterwards."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    said = f"{done.stderr[-4000:]}\n--- broker ---\n{place.broker.process.log_end()}"
    assert (done.returncode, done.stdout.splitlines()) == (0, DONE), said
    assert place.invoices(job) == INVOICES
