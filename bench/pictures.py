"""Pictures of figures, as SVG: lines over a size, and bars.

Written here, not by a plotting library: two forms of chart are all there is, and matplotlib would
bring pillow, fonttools, contourpy, kiwisolver and more into the environment of the tests for them.
These can be read in a diff, and follow a dark page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 40, 78, 74
_COLOURS = ("#2787c9", "#d9660f", "#2f9e72", "#b8568f")
_STYLE = """text { font: 13px system-ui, sans-serif; fill: #333 }
.title { font-size: 16px; font-weight: 600 } .note { fill: #777; font-size: 11px }
.grid { stroke: #8886; stroke-width: 0.5 } .line { fill: none; stroke-width: 2 } .base { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .note { fill: #999 } }"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    """Number of the colour. A figure and its baseline share one."""
    base: bool = False
    """True for a baseline, whose line is dashed."""


def lines(
    title: str, x: str, y: str, drawn: Sequence[Line], note: str, *, logarithmic: bool
) -> str:
    """Return a line chart over a logarithmic size. `logarithmic` is the other axis, which else
    begins at 0.
    """
    svg = _begin(title, note)
    places = sorted({at for line in drawn for at, _ in line.points})
    heights = [value for line in drawn for _, value in line.points]
    ticks = _decades(min(heights), max(heights)) if logarithmic else _steps(max(heights))

    def across(value: float) -> float:
        share = (
            math.log(value / places[0]) / math.log(places[-1] / places[0])
            if len(places) > 1
            else 0.5
        )
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        low, high = ticks[0], ticks[-1]
        share = (
            math.log(value / low) / math.log(high / low)
            if logarithmic
            else (value - low) / (high - low)
        )
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    for tick in ticks:
        _add(svg, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=up(tick), y2=up(tick), **{"class": "grid"})
        _text(svg, f"{tick:,g}", LEFT - 8, up(tick) + 4, "end")
    for place in places:
        _text(svg, f"{place:,g}", across(place), HEIGHT - BOTTOM + 18, "middle")
    _text(svg, x, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 38, "middle")
    _text(svg, y, 12, TOP - 12)
    at = LEFT + 40.0
    for line in drawn:
        style = {
            "class": "line base" if line.base else "line",
            "stroke": _COLOURS[line.colour % len(_COLOURS)],
        }
        points = " ".join(
            f"{across(place):.1f},{up(value):.1f}" for place, value in sorted(line.points)
        )
        _add(svg, "polyline", points=points, **style)
        _add(svg, "polyline", points=f"{at:.0f},46 {at + 24:.0f},46", **style)
        _text(svg, line.name, at + 30, 50)
        at += 52 + 7 * len(line.name)
    return _written(svg)


def bars(
    title: str,
    drawn: Sequence[tuple[str, float]],
    unit: str,
    note: str,
    *,
    left: int = 190,
    colours: Sequence[int] = (),
) -> str:
    """Return horizontal bars from 0 to 100, each with its name and its value. `left` is the room
    for the names; `colours` has the number of each bar's, and else the first two have their own.
    """
    svg = _begin(title, note)
    height = (HEIGHT - 60 - 40) / max(1, len(drawn))
    for at, (name, value) in enumerate(drawn):
        y = 48 + at * height
        length = (WIDTH - left - 90) * value / 100
        _add(
            svg,
            "rect",
            x=left,
            y=y,
            width=length,
            height=height * 0.7,
            fill=_COLOURS[colours[at] if colours else min(at, 2)],
        )
        _text(svg, name, left - 8, y + height * 0.35 + 5, "end")
        _text(svg, f"{value:.1f} {unit}", left + length + 6, y + height * 0.35 + 5)
    return _written(svg)


def _begin(title: str, note: str) -> Xml.Element:
    box = f"0 0 {WIDTH} {HEIGHT}"
    svg = Xml.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=box,
        width=str(WIDTH),
        height=str(HEIGHT),
        role="img",
    )
    Xml.SubElement(svg, "title").text = title
    Xml.SubElement(svg, "style").text = _STYLE
    _text(svg, title, 12, 24, kind="title")
    _text(svg, note, 12, HEIGHT - 10, kind="note")
    return svg


def _add(svg: Xml.Element, tag: str, **attributes: object) -> None:
    shown = {
        name: f"{value:.1f}" if isinstance(value, float) else str(value)
        for name, value in attributes.items()
    }
    Xml.SubElement(svg, tag, shown)


def _text(
    svg: Xml.Element, text: str, x: float, y: float, anchor: str = "start", kind: str = ""
) -> None:
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor} | (
        {"class": kind} if kind else {}
    )
    Xml.SubElement(svg, "text", attributes).text = text


def _written(svg: Xml.Element) -> str:
    Xml.indent(svg)
    return Xml.tostring(svg, encoding="unicode") + "\n"


def _decades(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten, from below `low` to above `high`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2)
    every = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    below = max((tick for tick in every if tick <= low), default=every[0])
    above = min(tick for tick in every if tick > low and tick >= high)
    return [tick for tick in every if below <= tick <= above]


def _steps(high: float) -> list[float]:
    """Return round steps from 0 to above `high`, four to ten of them."""
    power = 10.0 ** math.floor(math.log10(high))
    step = next(size for size in (power / 5, power / 2, power, 2 * power) if high / size <= 7)
    return [step * at for at in range(math.ceil(high / step) + 1)]
