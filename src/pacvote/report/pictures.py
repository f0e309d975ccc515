"""Where things are in the page's pictures; the template draws them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isnan
from typing import TYPE_CHECKING, Self, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pacvote.bounds.evidence import Floats
    from pacvote.displays import TandemDisplay

LEVELS = 9  # colours of the heat map
CELLS = 120  # lines that the heat map has at most
WIDTH, HEIGHT = 1000, 200  # of the curve


@final
@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from 0 to ``end``, and where its ticks are, in per cent of its length."""

    end: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def to(cls, largest: float) -> Self:
        """Return the axis that ends at the first round number past the largest value."""
        steps = (f * 10.0**k for k in range(-6, 1) for f in (1, 2, 2.5, 5))
        step = next(step for step in steps if largest <= 4 * step)
        n_steps = max(1, ceil(largest / step))
        ticks = tuple(
            (round(100 * k / n_steps, 3), f"{100 * k * step:.6g} %") for k in range(n_steps + 1)
        )
        return cls(n_steps * step, ticks)

    def place(self, value: float) -> float:
        """Return where a value is, in per cent of the axis."""
        return round(100 * value / self.end, 3)


def curve(weights: Floats, prior: Floats) -> dict[str, str | float]:
    """Return the outline of sorted weights and the line of their prior as SVG paths."""
    top, step = float(max(weights.max(), prior.max())), WIDTH / len(weights)

    def steps(values: Floats) -> str:
        heights = (HEIGHT * (1 - values / top)).tolist()
        return "".join(f"V{y:.1f}H{(k + 1) * step:.1f}" for k, y in enumerate(heights))

    return {
        "weights": f"M0 {HEIGHT}{steps(weights)}V{HEIGHT}Z",
        "prior": f"M0 {HEIGHT * (1 - float(prior[0]) / top):.1f}{steps(prior)}",
        "top": top,
    }


@final
@dataclass(frozen=True, slots=True)
class Heat:
    """A matrix as colours: a level for each cell, -1 where nothing is known."""

    levels: NDArray[np.intp]
    highest: float

    @classmethod
    def of(cls, tandem: TandemDisplay) -> Self:
        """Return the levels; neighbours of many voters are averaged."""
        blocks, highest = tandem.blocks(CELLS), tandem.highest
        highest = 0.0 if isnan(highest) else highest
        relative = np.nan_to_num(blocks, nan=0.0) / (highest or 1.0)
        levels = np.minimum((relative * LEVELS).astype(np.intp), LEVELS - 1)
        return cls(np.where(np.isnan(blocks), -1, levels), highest)

    @property
    def size(self) -> int:
        """Lines of the picture."""
        return len(self.levels)

    def paths(self) -> list[tuple[int, str]]:
        """Return, for each level, one SVG path over all of its cells, runs in one piece."""
        parts: dict[int, list[str]] = {}
        for y, row in enumerate(self.levels.tolist()):
            ends = [x for x in range(1, len(row)) if row[x] != row[x - 1]]
            for start, end in zip([0, *ends], [*ends, len(row)], strict=True):
                parts.setdefault(row[start], []).append(f"M{start} {y}h{end - start}v1H{start}z")
        return [(level, "".join(found)) for level, found in sorted(parts.items())]
