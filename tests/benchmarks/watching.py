"""What it costs to be watched: a load on brokers with metrics, and with metrics and the journal, scraped, beside the
same load on one without.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

from tallystick.process import BrokerProcess
from tests.benchmarks.footprint import Note
from tests.benchmarks.loads import Figures
from tests.benchmarks.rows import ROWS, WATCHED, Row, watched_title
from tests.benchmarks.targets import PAGE_CACHE, Target
from tests.harness.http import ask
from tests.harness.proxy import free_port

SCRAPE_S = 5.0
"""Three times as often as Prometheus by default."""
RATES = "MB/s", "transactions/s"
OFF, METRICS, JOURNAL = "off", "metrics", "journal"
OPTIONS = {OFF: (), METRICS: ("--set", "tallystick.journal.bytes=0"), JOURNAL: ()}


def watching(rounds: int, scale: float, folder: Path, note: Note) -> None:
    """In turns; each round begins with another broker."""
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(_started(folder / name, name)) for name in OPTIONS}
        for name in (METRICS, JOURNAL):
            stack.enter_context(scraped(brokers[name].process.http_url, SCRAPE_S))
        for row in (row for row in ROWS if row.title in WATCHED):
            for number in range(-1, rounds):
                figures = _round(row, brokers, scale, number)
                if number >= 0:
                    note(watched_title(row.title), PAGE_CACHE, figures)


def _round(row: Row, brokers: dict[str, Target], scale: float, number: int) -> Figures:
    names = list(brokers)
    begin = number % len(names)
    found = {name: row.measure(brokers[name], scale) for name in names[begin:] + names[:begin]}
    rate = next(figure for figure in RATES if figure in found[OFF])
    cpu = next(figure for figure in found[OFF] if figure.startswith("broker CPU"))

    def share(name: str, figure: str) -> float:
        return found[name][figure] / found[OFF][figure]

    return {
        "of what it is without": share(METRICS, rate),
        "broker CPU, the same": share(METRICS, cpu),
        "with the journal, too": share(JOURNAL, rate),
        "broker CPU with the journal": share(JOURNAL, cpu),
        rate: found[METRICS][rate],
    }


@contextmanager
def _started(folder: Path, name: str) -> Iterator[Target]:
    process = BrokerProcess(folder, options=["--durability", PAGE_CACHE, *OPTIONS[name]], port=free_port())
    process.has_http = name != OFF
    process.start()
    target = Target(PAGE_CACHE, process)
    try:
        yield target
    finally:
        target.close()


@contextmanager
def scraped(http_url: str, every_s: float) -> Iterator[None]:
    ended = Event()

    def scrape() -> None:
        while not ended.wait(every_s):
            assert ask(f"{http_url}/metrics").status == 200

    thread = Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
