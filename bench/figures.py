"""Figures of a benchmark, as data. Every script prints its own lines and returns these; `python -m
bench` makes one table.
"""

import importlib
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal of a figure, given only where it was measured at the size that the goal is for."""

    limit: float
    least: bool = False
    """True if the limit is the least good value; else it is the most."""
    of_ratio: bool = False
    """True if the goal is about the ratio to the baseline; else it is about the value."""

    def met(self, figure: "Figure") -> bool:
        """Return whether the figure reaches the goal."""
        value = figure.ratio if self.of_ratio else figure.value
        assert value is not None, f"{figure.name} has no ratio"
        return value >= self.limit if self.least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured."""

    name: str
    """A few words, without the size: the same thing at several sizes has one name."""
    value: float
    unit: str
    baseline: float | None = None
    """Baseline in the same unit; None if there is none."""
    against: str = ""
    """Name of the baseline."""
    ratio: float | None = None
    """The value by the baseline: their quotient, or the median of the rounds' quotients."""
    goal: Goal | None = None
    at: float | None = None
    """The size, where there is one: 8 callers, 100,000 messages."""
    of: str = ""
    """Unit of the size."""
    part: str = ""
    """Part that is measured, where parts are compared: a retriever of the search."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, with the benchmark that it is of."""

    benchmark: str
    figure: Figure


def measured(module: str, arguments: list[str]) -> list[Figure]:
    """Run a benchmark in a process of its own, free of others' threads and memory, and return its
    figures.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, module, arguments).result()


def _run(module: str, arguments: list[str]) -> list[Figure]:
    figures: list[Figure] = importlib.import_module(f"bench.{module}").main(arguments)
    return figures


def table(rows: Sequence[Row]) -> str:
    """Return the figures as one table in Markdown, its columns aligned."""
    head = ("benchmark", "figure", "seen", "baseline", "ratio", "goal")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(head))]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in cells
    ]
    return "\n".join(
        [lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]]
    )


def _cells(row: Row) -> tuple[str, ...]:
    figure = row.figure
    size = (
        f", {figure.at:,.0f} {figure.of}"
        if figure.at is not None
        else f": {figure.part}"
        if figure.part
        else ""
    )
    baseline = (
        f"{number(figure.baseline)} {figure.unit} ({figure.against})"
        if figure.baseline is not None
        else ""
    )
    ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
    goal = ""
    if figure.goal is not None:
        limit = f"{number(figure.goal.limit)}{' of the baseline' if figure.goal.of_ratio else ''}"
        goal = f"{'at least' if figure.goal.least else 'at most'} {limit}: {'met' if figure.goal.met(figure) else 'missed'}"
    return (
        row.benchmark,
        figure.name + size,
        f"{number(figure.value)} {figure.unit}".strip(),
        baseline,
        ratio,
        goal,
    )


def number(value: float) -> str:
    """Return a number with three significant digits and separated thousands."""
    if value % 1 == 0:
        return f"{value:,.0f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"
