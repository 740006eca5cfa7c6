"""What a person sees: progress while it runs, then a verdict per pipeline as a table."""

from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.pipelines.director import Told
from tests.pipelines.verdict import Verdict


class Screen:
    """Two bars per pipeline, and a line per event above them. Quiet where a machine reads."""

    def __init__(self, records: Mapping[str, int], *, quiet: bool) -> None:
        self.console = Console(quiet=quiet)
        columns = (TextColumn("{task.description:>24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=self.console, disable=quiet)
        self._written = {name: self._bars.add_task(f"{name} written", total=total) for name, total in records.items()}
        self._read = {name: self._bars.add_task(f"{name} through Spark", total=1) for name in records}
        self._shown = 0

    def __enter__(self) -> "Screen":
        self._bars.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._bars.stop()

    def show(self, results: Told) -> None:
        for at_s, event in results.events[self._shown :]:
            self.console.print(f"  [yellow]{at_s:6.1f} s  {event}[/yellow]", highlight=False)
        self._shown = len(results.events)
        for name, task in self._written.items():
            self._bars.update(task, completed=results.written.get(name, 0))
        for name, task in self._read.items():
            consumed = results.consumed.get(name, 0)
            total = max(consumed, results.written.get(name, 0))
            self._bars.update(task, completed=consumed, total=max(1, total))

    def verdict(self, name: str, verdict: Verdict) -> None:
        table = Table(title=f"{name}: the verdict of a read_committed consumer")
        table.add_column("")
        table.add_column("found", justify="right")
        table.add_column("must be", justify="right")
        table.add_column("")
        for what, found, wanted, right in ((one.what, one.found, one.wanted, one.right) for one in verdict.lines):
            table.add_row(what, f"{found}", wanted, "[green]✓[/green]" if right else "[bold red]✗ WRONG[/bold red]")
        self.console.print(table)
        for remark in verdict.remarks:
            self.console.print(remark, highlight=False)
        self.console.print("[green]exactly once[/green]" if verdict.ok else "[bold red]NOT as it must be[/bold red]")
