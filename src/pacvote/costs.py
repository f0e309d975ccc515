"""A limit on the expected cost of a vote's mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacvote._ballot import DRAWS, FIXED, HARD, Ballot, declared, stated
from pacvote.bounds.registry import exact_delta
from pacvote.certificate import with_confidence
from pacvote.concentration import binomial_upper
from pacvote.votes import Votes

ASSUMPTIONS = (
    DRAWS,
    FIXED,
    "The costs, delta and its shares were fixed before the labelled rows were seen.",
    HARD,
)


@final
@dataclass(frozen=True, slots=True)
class Exceedance:
    """At most ``limit`` of future rows cost ``level`` or more; ``n_rows`` of those seen did."""

    level: float
    n_rows: int
    share: Fraction
    limit: float


@final
@dataclass(frozen=True, slots=True)
class CostCertificate:
    """With probability at least 1 - delta, a future row costs at most ``exact_cost`` on average."""

    exact_cost: Fraction
    mean_cost: float
    lowest: float
    exceedances: tuple[Exceedance, ...]
    n_samples: int
    delta: Fraction
    voters: tuple[str, ...]
    weight_integers: tuple[int, ...]
    assumptions: tuple[str, ...]

    @property
    def cost(self) -> float:
        """The claimed limit as a float above it."""
        return nextafter(float(self.exact_cost), inf)

    def __str__(self) -> str:
        claim = (
            f"{with_confidence(self.delta)} this weighted vote of {len(self.voters)} voters costs "
            f"at most {_shown_up(self.exact_cost)} per future row on average (seen: "
            f"{self.mean_cost:.6g} per row on {self.n_samples} rows, ties at the larger cost)."
        )
        return stated(claim, self.assumptions)


def certify_cost(
    votes: Votes,
    costs: ArrayLike,
    classes: Sequence[Any] | NDArray[Any],
    *,
    weights: ArrayLike | None = None,
    delta: float | Fraction = 0.05,
    shares: Sequence[float | Fraction] | None = None,
) -> CostCertificate:
    """Limit the expected cost of a fixed vote, where some mistakes cost more than others.

    Parameters
    ----------
    votes : Votes
        What the voters said of labelled rows that had no part in making them or their weights.
    costs : array-like of shape (n_classes, n_classes)
        What it costs where the row's class is that of the row and the vote's that of the column;
        negative for a gain. Fixed beforehand.
    classes : sequence of length n_classes
        The classes of rows and columns; all that is a label or predicted.
    weights : array-like of shape (n_voters,), default=None
        Weights of the vote, fixed beforehand, rounded to multiples of 2^-40; equal by default.
        A tie costs what the worst of the tied classes would.
    delta : float or Fraction, default=0.05
        Probability with which the limit may be wrong.
    shares : sequence of float or Fraction, default=None
        The part of delta for each distinct cost above the lowest, in rising order, fixed
        beforehand, together at most 1; equal by default.

    Returns
    -------
    CostCertificate

    Guarantee
    ---------
    With probability at least ``1 - delta``, the mean cost of future rows is at most ``cost``. It
    holds with as many distinct costs as there are, but each of them takes its share of delta.
    """
    exact = exact_delta(delta)
    table = _matrix(costs, len(classes))
    ballot = Ballot.of(votes, weights)
    paid = _paid(ballot, table, declared("classes", classes, ballot.classes)[1])
    lowest, *levels = np.unique(table).tolist()
    parts = _parts(shares, len(levels))
    found = [
        _exceedance(paid, level, exact * part) for level, part in zip(levels, parts, strict=True)
    ]
    made = votes.voters, ballot.weights, ASSUMPTIONS
    return CostCertificate(
        _expected(lowest, found), float(paid.mean()), lowest, tuple(found), len(paid), exact, *made
    )


def _matrix(costs: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    table = np.asarray(costs)
    if table.dtype.kind not in "iuf" or table.shape != (n_classes, n_classes) or not n_classes:
        msg = (
            f"`costs` must be numbers with a row and a column for each of {n_classes} `classes`, "
            f"got {table.dtype} of shape {table.shape}"
        )
        raise ValueError(msg)
    exact = table.astype(np.float64)
    if not np.isfinite(exact).all():
        msg = "`costs` must be finite; an outcome that may never happen has no mean to limit"
        raise ValueError(msg)
    return exact


def _paid(
    ballot: Ballot, table: NDArray[np.float64], position: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what each row costs, a tie at its worst."""
    by_class = table[np.ix_(position, position)][ballot.truth]
    return np.asarray(np.where(ballot.leaders, by_class, -np.inf).max(axis=1))


def _parts(shares: Sequence[float | Fraction] | None, n_levels: int) -> list[Fraction]:
    if shares is None:
        return [Fraction(1, n_levels) for _ in range(n_levels)]
    parts = [Fraction(1) if part == 1 else exact_delta(part, "shares") for part in shares]
    if len(parts) != n_levels or sum(parts) > 1:
        msg = (
            f"`shares` must be {n_levels} parts of delta, one for each cost above the lowest, "
            f"together at most 1; got {len(parts)} that sum to {float(sum(parts)):.6g}"
        )
        raise ValueError(msg)
    return parts


def _exceedance(paid: NDArray[np.float64], level: float, share: Fraction) -> Exceedance:
    n_rows = int((paid >= level).sum())
    return Exceedance(level, n_rows, share, binomial_upper(len(paid), n_rows, share))


def _expected(lowest: float, found: Sequence[Exceedance]) -> Fraction:
    """Add up the steps between levels, each as often as it is exceeded at most."""
    total, below, limit = Fraction(lowest), Fraction(lowest), Fraction(1)
    for one in found:
        limit = min(limit, Fraction(one.limit))  # a higher level is exceeded no more often
        total += (Fraction(one.level) - below) * limit
        below = Fraction(one.level)
    return total


def _shown_up(value: Fraction) -> str:
    """Return six significant digits, rounded up."""
    shown = f"{float(value):.6g}"
    if Fraction(shown) >= value:
        return shown
    step = Fraction(10) ** (int(f"{float(value):.5e}".partition("e")[2]) - 5)
    return f"{float(Fraction(shown) + step):.6g}"
