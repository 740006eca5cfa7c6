"""What a person sees: progress while it runs, then the verdict as a table."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tallystick.demo import director
from tallystick.demo.verdict import Verdict


class Screen:
    """Two bars, and a line per event above them. Quiet where a machine reads."""

    def __init__(self, transfers: int, *, quiet: bool) -> None:
        self.console = Console(quiet=quiet)
        columns = (TextColumn("{task.description:>20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=self.console, disable=quiet)
        self._written = self._bars.add_task("transfers written", total=transfers)
        self._posted = self._bars.add_task("posted to the ledger", total=transfers)
        self._told = 0

    def __enter__(self) -> "Screen":
        self._bars.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._bars.stop()

    def show(self, progress: director.Progress) -> None:
        for event in progress.events[self._told :]:
            self.console.print(f"  [yellow]{event}[/yellow]", highlight=False)
        self._told = len(progress.events)
        self._bars.update(self._written, completed=progress.written)
        self._bars.update(self._posted, completed=progress.posted)

    def verdict(self, verdict: Verdict, seconds: float) -> None:
        table = Table(title=f"The verdict of a read_committed consumer ({seconds:.1f} s)")
        table.add_column("")
        table.add_column("found", justify="right")
        table.add_column("must be", justify="right")
        table.add_column("")
        for what, figure, wanted, right in verdict.lines():
            table.add_row(what, f"{figure}", wanted, "[green]✓[/green]" if right else "[bold red]✗ WRONG[/bold red]")
        self.console.print(table)
        self.console.print("[green]exactly once[/green]" if verdict.ok else "[bold red]NOT exactly once[/bold red]")
