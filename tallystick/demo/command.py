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
from tallystick.postgresql_process import PostgresqlFailed, why_not
from tallystick.process import BrokerFailed, BrokerProcess

OWN_SESSION_MS = 3000
"""Sessions of workers at a broker of our own, which is configured to allow them; Kafka's default minimum is 6 s."""

NODES_OF_A_CLUSTER = 3


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
@click.option(
    "--cluster",
    is_flag=True,
    help="Three nodes, or --nodes, over a PostgreSQL with a standby, started for it; the database fails over, too.",
)
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
    cluster: bool,
    plant: str,
) -> None:
    """The main job: an exactly-once pipeline through SIGKILL, SIGSTOP and a killed broker, and a verdict on it."""
    screen = Screen(transfers, quiet=as_json)
    nodes = NODES_OF_A_CLUSTER if cluster and nodes == 1 else nodes
    _check(bootstrap=bootstrap, alone=nodes == 1 and not store, store=store, cluster=cluster, keep=keep)
    broker = None if bootstrap else killable(durability, nodes, store, cluster=cluster)
    session_ms = 6000 if bootstrap else OWN_SESSION_MS
    failure = ""
    verdict = Verdict(transfers)
    seconds = 0.0
    try:
        if broker is not None:
            broker.start()
            bootstrap = broker.bootstrap
            durability = "the store's" if store or cluster else "in memory" if nodes > 1 else durability
            who = f"{nodes} nodes" if nodes > 1 else "a broker"
            screen.console.print(f"{who} at {bootstrap}, durability {durability}, seed {seed}", highlight=False)
        settings = Settings(bootstrap, transfers, seed, session_ms, plant)
        verdict, seconds = _run(settings, broker, screen)
        screen.verdict(verdict, seconds)
    except (DemoFailed, BrokerFailed, PostgresqlFailed) as error:
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


def _check(*, bootstrap: str, alone: bool, store: str, cluster: bool, keep: bool) -> None:
    """Whether options go together, and what they want is there."""
    if bootstrap and not alone:
        raise click.UsageError("with --bootstrap there is nothing to be started")
    if store and cluster:
        raise click.UsageError("--cluster starts a database, --store names one")
    if keep and (bootstrap or not alone):
        raise click.UsageError("--keep is for one broker of our own")
    if cluster and (reason := why_not()) is not None:
        raise click.ClickException(reason)


def _tidy_up(broker: Killable, *, failed: bool) -> None:
    broker.close()
    if failed:
        click.echo(f"the broker's log and data are kept in {broker.folder}", err=True)
    else:
        shutil.rmtree(broker.folder, ignore_errors=True)
