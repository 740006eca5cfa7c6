"""Pictures of the figures, as SVG: a bar for each broker's median, a dot for each round, a line where a goal is.

One picture of each family, a block for each of its rows, a panel for each figure. Colours follow what the reader's
browser is set to, light or dark.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar
from xml.sax.saxutils import escape

from tests.benchmarks.ratios import Measured, median, number, values
from tests.benchmarks.rows import GOALS
from tests.benchmarks.targets import DURABLE, KAFKA, KAFKA_FLUSH, KFAKE, PAGE_CACHE, TITLES

Item = TypeVar("Item")
WIDTH, MARGIN, LABEL, BARS, NUMBER = 960, 24, 172, 206, 60
PANEL = (WIDTH - 3 * MARGIN) // 2
BAR, PITCH, CAPTION, BLOCK = 18, 26, 24, 30
SIDE_BY_SIDE = ((PAGE_CACHE, KAFKA, KFAKE), (DURABLE, KAFKA_FLUSH))
"""Those that promise the same are neighbours."""
COLOURS = {PAGE_CACHE: "ours", DURABLE: "ours", KAFKA: "kafka", KAFKA_FLUSH: "kafka", KFAKE: "kfake", None: "number"}
MORE_IS_BETTER = ("MB/s", "k records/s", "transactions/s", "of what it is without", "with the journal, too")
LEFT_OUT = ("transactions", "k records/s")
"""What others are calculated by, and what says the same as MB/s."""

LIGHT = {"paper": "#ffffff", "ink": "#1f2328", "muted": "#59636e", "faint": "#d1d9e0"}
LIGHT |= {"ours": "#0969da", "kafka": "#bc4c00", "kfake": "#1a7f37", "number": "#1f2328"}
DARK = {"paper": "#0d1117", "ink": "#f0f6fc", "muted": "#9198a1", "faint": "#3d444d"}
DARK |= {"ours": "#4493f8", "kafka": "#f0883e", "kfake": "#3fb950", "number": "#f0f6fc"}


def _colours(scheme: Mapping[str, str]) -> str:
    """Without variables of CSS, which not every program that shows pictures knows."""
    rules = [f".paper {{ fill: {scheme['paper']} }} .dot {{ stroke: {scheme['paper']} }}"]
    rules += [f"text {{ fill: {scheme['ink']} }} .muted {{ fill: {scheme['muted']} }}"]
    rules += [f".axis {{ stroke: {scheme['faint']} }}"]
    for name in ("ours", "kafka", "kfake", "number"):
        rules.append(f".{name} {{ fill: {scheme[name]} }} line.{name} {{ stroke: {scheme[name]} }}")
    return "\n".join(rules)


STYLE = f"""
.bar {{ fill-opacity: 0.3 }} .median {{ stroke-width: 2.5 }} .goal {{ stroke-width: 2; stroke-dasharray: 3 2 }}
{_colours(LIGHT)}
@media (prefers-color-scheme: dark) {{
{_colours(DARK)}
}}
""".strip()
LEGEND = "bar and number: median · dots: rounds · dashed line: the goal, in the colour of what it is measured by"


class Bar(NamedTuple):
    """One broker: its rounds, and where goals are, each with the rival that it is a multiple of."""

    target: str
    rounds: list[float]
    median: float
    goals: list[tuple[float, str | None]]


class Panel(NamedTuple):
    """One figure of a row."""

    figure: str
    groups: list[list[Bar]]

    @property
    def height(self) -> int:
        return CAPTION + PITCH * sum(len(group) for group in self.groups) + 8 * (len(self.groups) - 1) + 14

    @property
    def highest(self) -> float:
        bars = [bar for group in self.groups for bar in group]
        return max([1e-9, *(value for bar in bars for value in (*bar.rounds, *(goal for goal, _ in bar.goals)))])


def svg(heading: str, rows: Measured, titles: list[str]) -> str:
    """The picture of one family. Where each row has one figure, rows stand side by side, and else figures of a row."""
    blocks = {title: panels_of(rows, title) for title in titles}
    lines: list[str] = []
    y = 62
    if all(len(panels) == 1 for panels in blocks.values()):
        for pair in _pairs(list(blocks.items())):
            lines += [_title(title, column, y) for column, (title, _) in enumerate(pair)]
            y += BLOCK
            y += _side_by_side([panels[0] for _, panels in pair], y, lines) + 8
    else:
        for title, panels in blocks.items():
            lines.append(_title(title, 0, y))
            y += BLOCK
            for two in _pairs(panels):
                y += _side_by_side(two, y, lines)
            y += 8
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="13">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{y}" rx="6"/>',
        f'<text x="{MARGIN}" y="30" font-size="17" font-weight="600">{escape(heading)}</text>',
        f'<text class="muted" x="{MARGIN}" y="50">{escape(LEGEND)}</text>',
    ]
    return "\n".join([*head, *lines, "</svg>", ""])


def _pairs(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[first : first + 2] for first in range(0, len(items), 2)]


def _left(column: int) -> int:
    return MARGIN + column * (PANEL + MARGIN)


def _title(title: str, column: int, y: int) -> str:
    return f'<text x="{_left(column)}" y="{y + 14}" font-weight="600">{escape(title)}</text>'


def _side_by_side(panels: Sequence[Panel], y: int, lines: list[str]) -> int:
    """How high they are."""
    for column, panel in enumerate(panels):
        lines += _drawn(panel, _left(column), y)
    return max(panel.height for panel in panels)


def panels_of(rows: Measured, title: str) -> list[Panel]:
    """One for each figure that is shown."""
    figures = dict.fromkeys(figure for target in rows[title].values() for figure in target)
    found: list[Panel] = []
    for figure in figures:
        groups = [[_bar(rows, title, name, figure) for name in group] for group in SIDE_BY_SIDE]
        measured = [[bar for bar in group if bar is not None] for group in groups]
        if figure not in LEFT_OUT:
            found.append(Panel(figure, [group for group in measured if group]))
    return sorted(found, key=lambda panel: panel.figure not in {goal.figure for goal in GOALS.get(title, ())})


def _bar(rows: Measured, title: str, target: str, figure: str) -> Bar | None:
    middle = median(rows, title, target, figure)
    if middle is None:
        return None
    goals: list[tuple[float, str | None]] = []
    for goal in GOALS.get(title, ()):
        base = 1.0 if goal.rival is None else median(rows, title, goal.rival, figure)
        if (goal.mode, goal.figure) == (target, figure) and base is not None:
            goals.append((goal.ratio * base, goal.rival))
    return Bar(target, values(rows, title, target, figure), middle, goals)


def _drawn(panel: Panel, x: int, y: int) -> list[str]:
    better = "more is better" if panel.figure in MORE_IS_BETTER else "less is better"
    caption = f'{escape(panel.figure)}<tspan class="muted">, {better}</tspan>'
    left, scale = x + LABEL, BARS / panel.highest
    lines = [f'<text x="{left}" y="{y + 12}">{caption}</text>']
    top = y + CAPTION
    for group in panel.groups:
        bottom = top + PITCH * len(group)
        lines.append(f'<line class="axis" x1="{left}" x2="{left}" y1="{top - 1}" y2="{bottom - 3}"/>')
        for bar in group:
            lines += _one_bar(bar, left, top, scale)
            top += PITCH
        top += 8
    return lines


def _one_bar(bar: Bar, left: int, top: int, scale: float) -> list[str]:
    def at(value: float) -> float:
        return left + max(0.0, value) * scale

    colour, end, low = COLOURS[bar.target], at(bar.median), top + BAR
    lines = [
        f'<text x="{left - 8}" y="{top + 13}" text-anchor="end">{escape(TITLES[bar.target])}</text>',
        f'<rect class="bar {colour}" x="{left}" y="{top}" width="{end - left:.1f}" height="{BAR}"/>',
        f'<line class="median {colour}" x1="{end:.1f}" x2="{end:.1f}" y1="{top}" y2="{low}"/>',
    ]
    for place, rival in bar.goals:
        x = f"{at(place):.1f}"
        lines.append(f'<line class="goal {COLOURS[rival]}" x1="{x}" x2="{x}" y1="{top - 3}" y2="{low + 3}"/>')
    for index, value in enumerate(bar.rounds):
        y = top + BAR * (index + 1) / (len(bar.rounds) + 1)
        lines.append(f'<circle class="dot {colour}" cx="{at(value):.1f}" cy="{y:.1f}" r="3"/>')
    lines.append(f'<text x="{left + BARS + NUMBER}" y="{top + 13}" text-anchor="end">{number(bar.median)}</text>')
    return lines
