"""A picture of a run, as SVG: how long each micro-batch took, and how much of the sink's topic its readers had to
wait for, with the faults as lines across both.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, PANEL, LEFT, TOP, GAP = 960, 190, 70, 56, 84
INK, FAINT, DOT, AREA, STRUCK = "#24292f", "#d0d7de", "#0969da", "#8250df", "#cf222e"

Point = tuple[float, float]


class Picture(NamedTuple):
    """What is drawn; times in seconds since the run began."""

    title: str
    latencies_ms: Sequence[Point]
    waiting: Sequence[Point]
    faults: Sequence[tuple[float, str]]


class _Panel:
    """One coordinate system. `decades`: the scale goes by powers of ten, from 10 on, because a first micro-batch takes
    a hundred times as long as the others.
    """

    def __init__(self, top: int, seconds: float, highest: float, *, decades: bool = False) -> None:
        self.bottom = top + PANEL
        self._seconds = seconds
        self._decades = decades
        self._highest = max(100.0, highest) if decades else highest

    def x(self, at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * at_s / self._seconds

    def y(self, value: float) -> float:
        share = value / self._highest
        if self._decades:
            share = math.log10(max(value, 10.0) / 10.0) / math.log10(self._highest / 10.0)
        return self.bottom - PANEL * share

    def frame(self, caption: str) -> list[str]:
        lines = [f'<text x="{LEFT}" y="{self.bottom - PANEL - 10}" font-weight="600">{escape(caption)}</text>']
        for value in self._marks():
            y = self.y(value)
            lines.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>')
            lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.0f}</text>')
        for at_s in _steps(self._seconds):
            x = self.x(at_s)
            lines.append(f'<text x="{x:.1f}" y="{self.bottom + 18}" text-anchor="middle">{at_s:g} s</text>')
        return lines

    def _marks(self) -> list[float]:
        if self._decades:
            return [10.0**power for power in range(1, int(math.log10(self._highest)) + 1)]
        return _steps(self._highest)


def _steps(highest: float) -> list[float]:
    """0 and up to five even steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(highest))
    step = next(step for step in (power / 5, power / 2, power, 2 * power, 5 * power) if highest / step <= 5)
    return [number * step for number in range(int(highest / step) + 1)]


def svg(picture: Picture) -> str:
    seconds = max([at for at, _ in [*picture.latencies_ms, *picture.waiting]] or [1.0]) or 1.0
    upper = _Panel(TOP, seconds, _ceiling(picture.latencies_ms), decades=True)
    lower = _Panel(TOP + PANEL + GAP, seconds, _ceiling(picture.waiting))
    height = lower.bottom + 36
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="600">{escape(picture.title)}</text>',
        *upper.frame("milliseconds that each micro-batch took, at the time of its end"),
        *lower.frame("records that are written and not yet visible to readers of committed records"),
    ]
    for number, (at_s, name) in enumerate(picture.faults):
        x, row = upper.x(at_s), 36 + 13 * (number % 2)
        dash = 'stroke-dasharray="4 3"'
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{lower.bottom}" stroke="{STRUCK}" {dash}/>')
        lines.append(f'<text x="{x + 3:.1f}" y="{TOP + PANEL + row}" fill="{STRUCK}">{escape(name)}</text>')
    for at_s, took_ms in picture.latencies_ms:
        lines.append(f'<circle cx="{upper.x(at_s):.1f}" cy="{upper.y(took_ms):.1f}" r="2.5" fill="{DOT}"/>')
    if picture.waiting:
        path = " ".join(f"{lower.x(at_s):.1f},{lower.y(value):.1f}" for at_s, value in picture.waiting)
        first, last = lower.x(picture.waiting[0][0]), lower.x(picture.waiting[-1][0])
        closed = f"{first:.1f},{lower.bottom} {path} {last:.1f},{lower.bottom}"
        lines.append(f'<polygon points="{closed}" fill="{AREA}" fill-opacity="0.35" stroke="{AREA}"/>')
    return "\n".join([*lines, "</svg>", ""])


def _ceiling(points: Sequence[Point]) -> float:
    return max([value for _, value in points] or [1.0]) * 1.05 or 1.0
