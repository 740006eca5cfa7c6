"""The `demo` command: options, a broker of its own, the run, the verdict.

Status 0 where nothing was lost or doubled, 1 where something was, or it could not run to its end, 2 for wrong options.
"""

import json
import shutil
import sys
import time

import click

from tallystick.demo.director import DemoFailed, Director
from tallystick.demo.nodes import Killable, OneBroker, killable
from tallystick.demo.plan import PLANTS, Settings
from tallystick.demo.show import Screen
from tallystick.demo.verdict import Verdict, judge
from tallystick.process import BrokerFailed, BrokerProcess

OWN_SESSION_MS = 3000
"""Sessions of workers at a broker of our own, which is configured to allow them; Kafka's default minimum is 6 s."""


def _run(settings: Settings, broker: Killable | None, screen: Screen) -> tuple[Verdict, float]:
    began = time.monotonic()
    director = Director(settings, broker, screen.show)
    try:
        with screen:
            director.run()
    finally:
        director.close()
    verdict = judge(settings, zombies_fenced=director.zombies_fenced, zombies_wanted=1)
    verdict.faults = director.faults
    return verdict, time.monotonic() - began


def _keep(screen: Screen, broker: BrokerProcess) -> None:
    where = broker.bootstrap
    screen.console.print(
        f"\nThe broker stays up: [bold]{where}[/bold], pid {broker.pid}, data in {broker.data}\n"
        f"  kcat -b {where} -C -t ledger -e -q -X isolation.level=read_committed | head\n"
        f"  kcat -b {where} -L\n"
        f"  kill {broker.pid}; rm -r {broker.folder}",
        highlight=False,
        soft_wrap=True,
    )


@click.command(name="demo")
@click.option("--transfers", default=100_000, show_default=True, type=click.IntRange(min=1000))
@click.option("--seed", default=1, show_default=True, help="Draws the transfers and what is aborted on purpose.")
@click.option("--json", "as_json", is_flag=True, help="No progress; the last line of output is one JSON object.")
@click.option("--keep", is_flag=True, help="Leave the broker up and print how to look at it.")
@click.option("--bootstrap", default="", help="Use a broker that runs already; it is not killed then.")
@click.option("--durability", default="fsync", show_default=True, type=click.Choice(["fsync", "page-cache"]))
@click.option(
    "--nodes", default=1, show_default=True, type=click.IntRange(min=1, max=9), help="So many, one is killed."
)
@click.option("--store", default="", help="Over this PostgreSQL, in a schema of its own; else several are in memory.")
@click.option("--plant", default="", type=click.Choice(["", *PLANTS]), help="Plant a fault, to see the verdict fail.")
def demo(
    transfers: int,
    seed: int,
    as_json: bool,
    keep: bool,
    bootstrap: str,
    durability: str,
    nodes: int,
    store: str,
    plant: str,
) -> None:
    """The main job: an exactly-once pipeline through SIGKILL, SIGSTOP and a killed broker, and a verdict on it."""
    screen = Screen(transfers, quiet=as_json)
    broker: Killable | None = None
    session_ms = 6000
    if not bootstrap:
        broker = killable(durability, nodes, store)
        session_ms = OWN_SESSION_MS
    elif nodes > 1 or store:
        raise click.UsageError("with --bootstrap there is nothing to be started")
    if keep and not isinstance(broker, OneBroker):
        raise click.UsageError("--keep is for one broker of our own")
    failure = ""
    verdict = Verdict(transfers)
    seconds = 0.0
    try:
        if broker is not None:
            broker.start()
            bootstrap = broker.bootstrap
            durability = "the store's" if store else "in memory" if nodes > 1 else durability
            who = f"{nodes} nodes" if nodes > 1 else "a broker"
            screen.console.print(f"{who} at {bootstrap}, durability {durability}, seed {seed}", highlight=False)
        settings = Settings(bootstrap, transfers, seed, session_ms, plant)
        verdict, seconds = _run(settings, broker, screen)
        screen.verdict(verdict, seconds)
    except (DemoFailed, BrokerFailed) as error:
        failure = str(error)
        click.echo(f"the demo failed: {failure}", err=True)
    finally:
        if broker is not None and not keep:
            _tidy_up(broker, failed=bool(failure))
    if keep and isinstance(broker, OneBroker):
        _keep(screen, broker.process)
    ok = verdict.ok and not failure
    if as_json:
        figures = verdict.as_json() | {"ok": ok, "seed": seed, "seconds": round(seconds, 2), "durability": durability}
        figures |= {"nodes": nodes}
        click.echo(json.dumps(figures | {"failure": failure}))
    sys.exit(0 if ok else 1)


def _tidy_up(broker: Killable, *, failed: bool) -> None:
    broker.close()
    if failed:
        click.echo(f"the broker's log and data are kept in {broker.folder}", err=True)
    else:
        shutil.rmtree(broker.folder, ignore_errors=True)
