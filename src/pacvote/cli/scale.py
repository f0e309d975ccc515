"""A picture of risks on one scale, in characters."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMES = 20  # columns for names
_TICK = 5  # columns for "100 %"


@dataclass(frozen=True, slots=True)
class Row:
    """A vote by its name, its measured error, and what is certified of it, if anything."""

    name: str
    measured: float
    limit: float | None


def scale(rows: Sequence[Row], width: int, *, ascii_only: bool = False) -> Text:
    """Draw measured errors and limits above each other, on an axis from 0.

    Parameters
    ----------
    rows : sequence of Row
        What to draw, from the top.
    width : int
        Columns to fill at most.
    ascii_only : bool, default=False
        Whether the terminal has no other characters.

    Returns
    -------
    rich.text.Text
    """
    dot, line, end = "o-|" if ascii_only else "●─┤"
    step = _step(max(max(row.measured, row.limit or 0.0) for row in rows))
    n_steps = max(ceil(max(max(r.measured, r.limit or 0.0) for r in rows) / step), 1)
    space = max((width - _NAMES - _TICK) // n_steps, 1)  # of a step
    picture = Text()
    for row in rows:
        first = round(row.measured / step * space)
        last = first if row.limit is None else max(ceil(row.limit / step * space), first + 1)
        picture.append(f"{row.name:<{_NAMES}.{_NAMES}}" + " " * first)
        picture.append(dot, style="green")
        if row.limit is not None:
            picture.append(line * (last - first - 1), style="dim")
            picture.append(end, style="bold cyan")
        picture.append("\n")
    each = ceil((_TICK + 1) / space)  # how many steps a label needs
    labels = (f"{100 * step * k:.0f} %" for k in range(0, n_steps + 1, each))
    ticks = "".join(label.ljust(space * each) for label in labels)
    picture.append(" " * _NAMES + ticks.rstrip(), style="dim")
    return picture


def _step(largest: float) -> float:
    return next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 1.0) if largest <= 5 * step)
