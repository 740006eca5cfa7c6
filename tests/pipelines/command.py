"""The command: options, a broker of its own, the run, the verdicts."""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from spark_connector.pipelines.settings import DELTA, EOS, PARQUET, STOCK, Settings
from tallystick.process import BrokerFailed, BrokerProcess
from tests.harness.schema_registry import serving
from tests.pipelines import chart, figures
from tests.pipelines.cdc.pipeline import CdcPipeline
from tests.pipelines.cdc.plan import register_schemas
from tests.pipelines.director import Director, PipelinesFailed
from tests.pipelines.faults import Kind, plan
from tests.pipelines.needs import NoSpark, needed, table_format
from tests.pipelines.pipeline import Pipeline
from tests.pipelines.show import Screen
from tests.pipelines.transfers.pipeline import TransfersPipeline
from tests.pipelines.verdict import Verdict
from tests.pipelines.windows.pipeline import WindowsPipeline

PIPELINES: dict[str, type[Pipeline]] = {
    "transfers": TransfersPipeline,
    "windows": WindowsPipeline,
    "cdc": CdcPipeline,
}
BROKER_SETTINGS = ("--set", "log.cleaner.backoff.ms=500")
"""Of a broker of our own: the compaction that the verdict waits for comes soon."""
EVERYBODY = ",".join(kind.value for kind in Kind)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Which processes are killed, and how often each."""

    kinds: Sequence[Kind]
    rounds: int


@dataclass(slots=True)
class Outcome:
    """Verdicts and figures of one run, or why there are none."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    figures: dict[str, object] = field(default_factory=dict)
    failure: str = ""

    @property
    def ok(self) -> bool:
        return not self.failure and bool(self.verdicts) and all(one.ok for one in self.verdicts.values())

    def as_json(self) -> dict[str, object]:
        verdicts = {name: verdict.as_json() for name, verdict in self.verdicts.items()}
        return {"ok": self.ok, "verdicts": verdicts, "failure": self.failure, **self.figures}


def _run(
    settings: Settings, broker: BrokerProcess | None, trouble: Trouble, screen: Screen, chart_path: Path | None
) -> Outcome:
    began = time.monotonic()
    pipelines = [PIPELINES[name]() for name in settings.pipelines]
    kinds = [kind for kind in trouble.kinds if broker is not None or kind is not Kind.BROKER]
    strikes = plan(settings.seed, kinds, trouble.rounds, always_aimed=settings.sink != EOS)
    director = Director(settings, pipelines, broker, strikes, screen.show)
    try:
        with screen:
            director.run()
    finally:
        director.close()
    outcome = Outcome(figures=figures.of_run(director.results, director.samplers))
    outcome.figures["run_s"] = round(time.monotonic() - began, 1)
    for pipeline in pipelines:
        outcome.verdicts[pipeline.name] = pipeline.judge(director.runs[pipeline.name])
        screen.verdict(pipeline.name, outcome.verdicts[pipeline.name])
    if chart_path is not None:
        name = pipelines[0].name
        records = pipelines[0].records(settings)
        chart_path.write_text(chart.svg(figures.picture(name, records, director.results, director.samplers[name])))
    outcome.figures["seconds"] = round(time.monotonic() - began, 1)
    return outcome


def _kinds(context: click.Context, option: click.Parameter, given: str) -> list[Kind]:
    try:
        return [Kind(name.strip()) for name in given.split(",") if name.strip()]
    except ValueError:
        raise click.BadParameter(f"{given}: of {', '.join(kind.value for kind in Kind)}") from None


@click.command()
@click.argument("which", default="all", type=click.Choice([*PIPELINES, "all"]))
@click.option("--seed", default=1, show_default=True, help="Draws the data, what is aborted, and the faults.")
@click.option("--scale", default=0.1, show_default=True, help="1 is 1 M transfers, 500 k clicks, 200 k changes.")
@click.option("--kills/--no-kills", default=True, show_default=True)
@click.option("--struck", default=EVERYBODY, show_default=True, callback=_kinds, help="Who is killed.")
@click.option("--rounds", default=2, show_default=True, type=click.IntRange(min=1), help="How often each.")
@click.option("--source", default=STOCK, show_default=True, type=click.Choice([STOCK, "kafka-arrow"]))
@click.option("--table", default=DELTA, show_default=True, type=click.Choice([DELTA, PARQUET]), help="What cdc makes.")
@click.option("--control", is_flag=True, help="Transfers through Spark's own sink instead: it must double.")
@click.option("--bootstrap", default="", help="Use a broker that runs already; it is not killed then.")
@click.option("--prefix", default="", help="Names of topics, groups and sinks begin with it.")
@click.option("--durability", default="fsync", show_default=True, type=click.Choice(["fsync", "page-cache"]))
@click.option("--chart", "chart_path", default=None, type=click.Path(path_type=Path), help="Draw latencies and stalls.")
@click.option("--keep", is_flag=True, help="Leave checkpoints, logs and data where they are.")
@click.option("--json", "as_json", is_flag=True, help="No progress; the last line of output is one JSON object.")
def pipelines(
    which: str,
    seed: int,
    scale: float,
    kills: bool,
    struck: list[Kind],
    rounds: int,
    source: str,
    table: str,
    control: bool,
    bootstrap: str,
    prefix: str,
    durability: str,
    chart_path: Path | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Three Spark pipelines through kills, and a verdict on every record of them."""
    names = ("transfers",) if control else tuple(PIPELINES) if which == "all" else (which,)
    folder = Path(tempfile.mkdtemp(prefix="tallystick-pipelines-"))
    settings = Settings(bootstrap, str(folder), names, seed, scale, prefix, source, STOCK if control else EOS)
    settings = replace(settings, table_format=table_format(table))
    screen = Screen({name: PIPELINES[name]().records(settings) for name in names}, quiet=as_json)
    broker = None if bootstrap else _own_broker(folder, durability)
    outcome = Outcome()
    try:
        needed(settings)
        if broker is not None:
            settings = replace(settings, bootstrap=broker.start().bootstrap)
            screen.console.print(f"a broker at {settings.bootstrap}, {durability}, seed {seed}", highlight=False)
        trouble = Trouble(struck if kills else [], rounds)
        with _registry(settings) as settings:
            outcome = _run(settings, broker, trouble, screen, chart_path)
    except (NoSpark, PipelinesFailed, BrokerFailed) as error:
        outcome.failure = str(error)
        click.echo(f"the pipelines failed: {outcome.failure}", err=True)
    finally:
        _tidy_up(broker, folder, keep=keep or not outcome.ok)
    if as_json:
        options = {"seed": seed, "scale": scale, "source": source, "durability": durability}
        click.echo(json.dumps(outcome.as_json() | options))
    sys.exit(0 if outcome.ok else 1)


@contextmanager
def _registry(settings: Settings) -> Iterator[Settings]:
    """A Schema Registry of this process, which is not killed."""
    with serving() as registry:
        register_schemas(registry, settings.topic(CdcPipeline.source_topic))
        yield replace(settings, registry=registry.url)


def _own_broker(folder: Path, durability: str) -> BrokerProcess:
    return BrokerProcess(folder / "broker", options=["--durability", durability, *BROKER_SETTINGS])


def _tidy_up(broker: BrokerProcess | None, folder: Path, *, keep: bool) -> None:
    if broker is not None:
        broker.close()
    if keep:
        click.echo(f"checkpoints, logs and data are kept in {folder}", err=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
